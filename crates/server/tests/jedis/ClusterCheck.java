// Jedis's cluster client on servers of a dictionary of words and their line numbers: `java ClusterCheck.java PORT WORDS`.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;

public class ClusterCheck {
    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    public static void main(String[] arguments) throws Exception {
        HostAndPort seed = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
        List<String> words = Files.readAllLines(Path.of(arguments[1]));
        try (JedisCluster cluster = new JedisCluster(seed)) {
            Set<String> nodes = new HashSet<>(cluster.getClusterNodes().keySet());
            check(nodes.size() == 3, "nodes: " + nodes);
            for (int line = 0; line < words.size(); line += 97) {
                String number = Integer.toString(line + 1);
                check(number.equals(cluster.get(words.get(line))), words.get(line));
            }
            check(cluster.get("no such word") == null, "a word that is not there");
            check(cluster.strlen(words.get(0)) == 1 && cluster.ttl(words.get(0)) == -1, "length and lifetime");
            try (ClusterPipeline pipeline = cluster.pipelined()) {
                List<Response<String>> found = words.subList(0, 5000).stream().map(pipeline::get).toList();
                pipeline.sync();
                for (int line = 0; line < found.size(); line++) {
                    check(Integer.toString(line + 1).equals(found.get(line).get()), "pipeline: " + words.get(line));
                }
            }
            try {
                cluster.set("a", "b");
                check(false, "SET was accepted");
            } catch (JedisDataException refused) {
                check(refused.getMessage().startsWith("READONLY"), refused.getMessage());
            }
        }
        System.out.println("jedis: " + words.size() / 97 + " words from three nodes, a pipeline of 5000");
    }
}
