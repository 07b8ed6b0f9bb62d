/* hiredis, as C programs use it: synchronous calls, a pipeline, binary values, RESP3 where it has that. Prints nothing but faults. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisReply *expect(redisReply *reply, int type, const char *what)
{
    if (reply == NULL || reply->type != type) {
        fprintf(stderr, "hiredis: %s: reply of type %d, expected %d: %s\n", what, reply ? reply->type : -1, type,
                reply && reply->str ? reply->str : "");
        exit(1);
    }
    return reply;
}

int main(int argc, char **argv)
{
    enum { COUNT = 10000 };
    redisContext *context = redisConnect("127.0.0.1", argc > 1 ? atoi(argv[1]) : 6379);
    redisReply *reply;
    if (context == NULL || context->err) {
        fprintf(stderr, "hiredis: %s\n", context ? context->errstr : "no memory");
        return 1;
    }
    freeReplyObject(expect(redisCommand(context, "SET %b %b", "k\0y", (size_t)3, "a\0b\r\n", (size_t)5),
                           REDIS_REPLY_STATUS, "SET"));
    reply = expect(redisCommand(context, "GET %b", "k\0y", (size_t)3), REDIS_REPLY_STRING, "GET");
    if (reply->len != 5 || memcmp(reply->str, "a\0b\r\n", 5) != 0)
        return fprintf(stderr, "hiredis: another value came back\n"), 1;
    freeReplyObject(reply);
    for (int i = 0; i < COUNT; i++)
        redisAppendCommand(context, "APPEND key:%d %d", i % 100, i % 10);
    for (int i = 0; i < COUNT; i++) {
        if (redisGetReply(context, (void **)&reply) != REDIS_OK)
            return fprintf(stderr, "hiredis: %s\n", context->errstr), 1;
        expect(reply, REDIS_REPLY_INTEGER, "APPEND");
        if (reply->integer != i / 100 + 1)
            return fprintf(stderr, "hiredis: append %d has length %lld\n", i, reply->integer), 1;
        freeReplyObject(reply);
    }
#ifdef REDIS_REPLY_MAP /* since hiredis 1.0 */
    freeReplyObject(expect(redisCommand(context, "HELLO 3"), REDIS_REPLY_MAP, "HELLO"));
#endif
    freeReplyObject(expect(redisCommand(context, "GET nothing"), REDIS_REPLY_NIL, "GET"));
    freeReplyObject(expect(redisCommand(context, "LPUSH a b"), REDIS_REPLY_ERROR, "LPUSH"));
    redisFree(context);
    return 0;
}
