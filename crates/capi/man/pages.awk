# Makes the manual pages of the C library from the comments of splitpoint.h, so that header and pages cannot differ.
#
#     awk -f pages.awk -v out=man3 -v version=0.1.0 -v date=2026-11-22 splitpoint.h
#
# A comment that begins with "/** name, ... - summary" is a page, and what is declared until the next one its synopsis.
# Each further name gets a page that refers to the first. In a comment
#
#     Word: text         begins a section
#     two spaces, then   an item of a list: its name, two spaces, its text, which goes on further to the right
#     four spaces        after an empty line or a section: code, as it stands
#     `name`             an argument
#     See: name, name    is the section SEE ALSO

function bold(word) { return "\\fB" word "\\fR" }

# Text with what troff takes for its own made plain, and with names marked.
function marked(text,    result, word) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    result = ""
    while (match(text, /`[^`]+`|(spt|SPT)_[A-Za-z0-9_]*[A-Za-z0-9](\.\.\.)?/)) {
        word = substr(text, RSTART, RLENGTH)
        result = result substr(text, 1, RSTART - 1)
        if (word ~ /^`/)
            result = result "\\fI" substr(word, 2, length(word) - 2) "\\fR"
        else
            result = result bold(word)
        text = substr(text, RSTART + RLENGTH)
    }
    result = result text
    # A line of troff that begins with these is a command.
    if (result ~ /^[.']/)
        result = "\\&" result
    return result
}

function code_line(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

function emit(line) { print line > page }

# Ends a block of code or a list.
function end_block() {
    if (in_code)
        emit(".EE\n.RE")
    in_code = in_list = 0
}

function section(name) {
    end_block()
    emit(".SH " toupper(name))
    after_blank = 1
    started = 0
}

function paragraph() {
    if (started)
        emit(".PP")
    started = 1
}

function body_line(line,    words, item) {
    if (line == "") {
        # Code may have empty lines; what comes next decides.
        pending_blank = 1
        return
    }
    if (in_code && line ~ /^    /) {
        if (pending_blank)
            emit("")
        pending_blank = 0
        emit(code_line(substr(line, 5)))
        return
    }
    if (pending_blank || (in_code && line !~ /^    /)) {
        end_block()
        after_blank = 1
    }
    pending_blank = 0
    if (after_blank && line ~ /^    /) {
        end_block()
        emit(started ? ".PP\n.RS 4\n.EX" : ".RS 4\n.EX")
        in_code = started = 1
        after_blank = 0
        emit(code_line(substr(line, 5)))
        return
    }
    if (line ~ /^  [^ ]/) {
        item = substr(line, 3)
        if (match(item, /   */)) {
            # Both before `marked`, which has matches of its own.
            words = substr(item, RSTART + RLENGTH)
            item = substr(item, 1, RSTART - 1)
            emit(".TP 22\n" marked(item))
            emit(marked(words))
        } else
            emit(".TP 22\n" (item ~ /^SPT_/ ? marked(item) : "\\(bu") (item ~ /^SPT_/ ? "" : "\n" marked(item)))
        in_list = started = 1
        after_blank = 0
        return
    }
    if (in_list && line ~ /^   /) {
        sub(/^ */, "", line)
        emit(marked(line))
        return
    }
    if (in_list)
        after_blank = 1
    in_list = 0
    if (match(line, /^[A-Z][a-z]+:( |$)/) && after_blank) {
        words = substr(line, RLENGTH + 1)
        line = substr(line, 1, index(line, ":") - 1)
        sub(/^ /, "", words)
        if (line == "See") {
            see = see " " words
            in_see = 1
            return
        }
        section(line)
        if (words != "") {
            started = 1
            after_blank = 0
            emit(marked(words))
        }
        return
    }
    if (in_see) {
        see = see " " line
        return
    }
    if (after_blank)
        paragraph()
    after_blank = 0
    emit(marked(line))
}

# The synopsis is known when the next page begins, so the text waits for it.
function flush_page(    i, n, refers) {
    if (title == "")
        return
    page = out "/" title ".3"
    printf "" > page
    emit(".\\\" Made from splitpoint.h by crates/capi/man/pages.awk: change it there.")
    emit(".TH " toupper(title) " 3 " date " \"Splitpoint " version "\" \"Splitpoint Manual\"")
    emit(".SH NAME")
    emit(names " \\- " summary)
    emit(".SH LIBRARY\nSplitpoint (libsplitpoint, \\-lsplitpoint)")
    emit(".SH SYNOPSIS\n.nf\n.B #include <splitpoint.h>")
    while (synopsis_count > 0 && synopsis[synopsis_count] == "")
        synopsis_count--
    for (i = 1; i <= synopsis_count; i++)
        emit((i == 1 ? ".PP\n" : "") code_line(synopsis[i]))
    emit(".fi")
    section("description")
    for (i = 1; i <= body_count; i++)
        body_line(body[i])
    end_block()
    emit(".SH SEE ALSO")
    if (see == "" && title != "splitpoint")
        see = "splitpoint"
    else if (title != "splitpoint" && see !~ /splitpoint/)
        see = see ", splitpoint"
    gsub(/,/, " ", see)
    n = split(see, refers, " ")
    for (i = 1; i <= n; i++)
        emit(bold(refers[i]) "(3)" (i < n ? "," : ""))
    close(page)
    n = split(names, refers, ", ")
    for (i = 2; i <= n; i++) {
        page = out "/" refers[i] ".3"
        print ".so man3/" title ".3" > page
        close(page)
    }
    title = see = ""
    body_count = synopsis_count = 0
    in_code = in_list = in_see = pending_blank = 0
}

/^\/\*\* / {
    flush_page()
    heading = substr($0, 5)
    in_comment = in_heading = 1
}

in_heading {
    if (!/^\/\*\* /)
        heading = heading " " substr($0, 4)
    if (match(heading, / - /)) {
        names = substr(heading, 1, RSTART - 1)
        summary = substr(heading, RSTART + 3)
        title = names
        sub(/,.*/, "", title)
        in_heading = 0
    }
    next
}

in_comment && /^ \*\// { in_comment = 0; next }
in_comment { body[++body_count] = substr($0, 4); next }

# What is no declaration: the guards of the file, and those for C++.
/^#if|^#endif|^extern "C"|^#include|^#define SPLITPOINT_H/ { skipped = /^#if/; next }
skipped && /^}$/ { next }
title != "" && title != "splitpoint" && (synopsis_count > 0 || $0 != "") { synopsis[++synopsis_count] = $0 }

END { flush_page() }
