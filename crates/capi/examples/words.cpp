/* Counts the words of standard input in a table, and prints the ten most frequent: words < TEXT [FILE].
 * Build: c++ -std=c++17 words.cpp $(pkg-config --cflags --libs splitpoint) */
#include <algorithm>
#include <iostream>
#include <splitpoint.hpp>

static void count(splitpoint::Table &table, std::istream &text)
{
    auto one_more = [](std::optional<std::string_view> count) {
        return splitpoint::Update::store(std::to_string(count ? std::stoull(std::string(*count)) + 1 : 1));
    };
    for (std::string word; text >> word;)
        table.update(word, one_more);
}

static void print_most_frequent(const splitpoint::Table &table, std::size_t most)
{
    std::vector<std::pair<unsigned long long, std::string>> words;
    for (auto [word, count] : table)
        words.emplace_back(std::stoull(std::string(count)), word);
    most = std::min(most, words.size());
    std::partial_sort(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(most), words.end(), std::greater<>());
    words.resize(most);
    for (const auto &[count, word] : words)
        std::cout << count << '\t' << word << '\n';
}

int main(int count_of, char **arguments)
try {
    auto table = count_of > 1 ? splitpoint::Table::open(arguments[1]) : splitpoint::Table::in_memory();
    count(table, std::cin);
    print_most_frequent(table, 10);
    table.close();
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
