//! The table of all commands. A command is one row: name, arity, flags, keys, documentation, and the function that
//! executes it, whose class shows what it needs.
//!
//! The rows are a macro, because two files read them: `spec.rs` takes what is known about each command, which handlers
//! may use; `dispatch.rs` takes the functions. So they drive lookup, the check of the number of arguments, dispatch,
//! batching, COMMAND (COUNT, DOCS, INFO, LIST, GETKEYS), and the list in docs/server-commands.md, which a
//! test compares.
//!
//! To add a command, add a row here and its function in the file of its group.

/// Passes all rows to a macro. A row:
/// `Id "name" arity [flags] (first-key last-key step) "group" "since" "syntax" "summary" Class(function);`
macro_rules! rows {
    ($use:ident) => { $use! {
    Get "get" 2 [READONLY FAST RUN] (1 1 1) "string" "1.0.0" "key" "Returns the value of a key."
        Lookup(strings::get);
    Set "set" -3 [WRITE DENYOOM RUN RUN_OF_EDITS] (1 1 1) "string" "1.0.0"
        "key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] \
         [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time-ms | KEEPTTL]"
        "Stores a value, with optional conditions and lifetime."
        Edit(strings::set);
    SetNx "setnx" 3 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key value"
        "Stores a value if the key is absent."
        Edit(strings::setnx);
    SetEx "setex" 4 [WRITE DENYOOM RUN_OF_EDITS] (1 1 1) "string" "2.0.0" "key seconds value"
        "Stores a value with a lifetime in seconds."
        Edit(|call, now_ms| strings::setex(call, now_ms, 1000));
    PSetEx "psetex" 4 [WRITE DENYOOM RUN_OF_EDITS] (1 1 1) "string" "2.6.0" "key milliseconds value"
        "Stores a value with a lifetime in milliseconds."
        Edit(|call, now_ms| strings::setex(call, now_ms, 1));
    GetSet "getset" 3 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key value"
        "Stores a value and returns the previous one."
        Edit(strings::getset);
    GetEx "getex" -2 [WRITE FAST RUN_OF_EDITS] (1 1 1) "string" "6.2.0"
        "key [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time-ms | PERSIST]"
        "Returns the value of a key and sets or removes its lifetime."
        Edit(strings::getex);
    GetDel "getdel" 2 [WRITE FAST] (1 1 1) "string" "6.2.0" "key" "Removes a key and returns its value."
        Change(strings::getdel);
    DelEx "delex" -2 [WRITE FAST] (1 1 1) "string" "8.4.0"
        "key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]"
        "Removes a key, optionally only if its value equals, or differs from, the given one."
        Change(strings::delex);
    Digest "digest" 2 [READONLY FAST] (1 1 1) "string" "8.4.0" "key" "Returns the XXH3 hash of a value in hexadecimal."
        Lookup(strings::digest);
    MGet "mget" -2 [READONLY FAST RUN_OF_KEYS] (1 -1 1) "string" "1.0.0" "key [key ...]"
        "Returns the values of several keys."
        Lookup(strings::mget);
    MSet "mset" -3 [WRITE DENYOOM] (1 -1 2) "string" "1.0.1" "key value [key value ...]"
        "Stores several values atomically."
        Change(|alone, call| strings::mset(alone, call, false));
    MSetNx "msetnx" -3 [WRITE DENYOOM] (1 -1 2) "string" "1.0.1" "key value [key value ...]"
        "Stores several values atomically, only if none of the keys exists."
        Change(|alone, call| strings::mset(alone, call, true));
    MSetEx "msetex" -4 [WRITE DENYOOM] (2 0 2) "string" "8.4.0"
        "numkeys key value [key value ...] [NX | XX] \
         [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time-ms | \
         KEEPTTL]" "Stores several values atomically, with optional condition and lifetime."
        Change(strings::msetex);
    Append "append" -3 [WRITE DENYOOM FAST RUN] (1 1 1) "string" "2.0.0" "key value [MAXLEN bytes]"
        "Appends to a value, up to MAXLEN; an absent key counts as empty."
        Change(strings::append);
    StrLen "strlen" 2 [READONLY FAST RUN] (1 1 1) "string" "2.2.0" "key" "Returns the length of a value."
        Lookup(strings::strlen);
    GetRange "getrange" 4 [READONLY] (1 1 1) "string" "2.4.0" "key start end" "Returns part of a value."
        Lookup(strings::getrange);
    SubStr "substr" 4 [READONLY] (1 1 1) "string" "1.0.0" "key start end"
        "Returns part of a value; the old name of GETRANGE."
        Lookup(strings::getrange);
    SetRange "setrange" 4 [WRITE DENYOOM] (1 1 1) "string" "2.2.0" "key offset value"
        "Overwrites part of a value, padding with zeros as needed."
        Change(strings::setrange);
    Incr "incr" 2 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key" "Increments an integer by one."
        Edit(|_, _| strings::incr_by(1));
    Decr "decr" 2 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key" "Decrements an integer by one."
        Edit(|_, _| strings::incr_by(-1));
    IncrBy "incrby" 3 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key increment"
        "Increments an integer."
        Edit(strings::incr_by_argument);
    DecrBy "decrby" 3 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key decrement"
        "Decrements an integer."
        Edit(strings::decr_by);
    IncrByFloat "incrbyfloat" 3 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "2.6.0" "key increment"
        "Increments a floating-point number."
        Edit(strings::incr_by_float);
    Lcs "lcs" -3 [READONLY] (1 2 1) "string" "7.0.0" "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]"
        "Returns the longest common subsequence of two values."
        Lookup(lcs::lcs);

    SetBit "setbit" 4 [WRITE DENYOOM] (1 1 1) "bitmap" "2.2.0" "key offset value"
        "Sets or clears a bit; returns its previous value."
        Change(bits::setbit);
    GetBit "getbit" 3 [READONLY FAST] (1 1 1) "bitmap" "2.2.0" "key offset" "Returns a bit of a value."
        Lookup(bits::getbit);
    BitCount "bitcount" -2 [READONLY] (1 1 1) "bitmap" "2.6.0" "key [start end [BYTE | BIT]]"
        "Counts the bits that are set."
        Lookup(bits::bitcount);
    BitPos "bitpos" -3 [READONLY] (1 1 1) "bitmap" "2.8.7" "key bit [start [end [BYTE | BIT]]]"
        "Returns the position of the first set or clear bit."
        Lookup(bits::bitpos);
    BitOp "bitop" -4 [WRITE DENYOOM] (2 -1 1) "bitmap" "2.6.0" "AND | OR | XOR | NOT destination key [key ...]"
        "Stores the result of a bitwise operation on values."
        Change(bits::bitop);
    BitField "bitfield" -2 [WRITE DENYOOM] (1 1 1) "bitmap" "3.2.0"
        "key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY type offset increment ...]"
        "Reads and changes integers of any width."
        Change(bits::bitfield);
    BitFieldRo "bitfield_ro" -2 [READONLY FAST] (1 1 1) "bitmap" "6.0.0" "key [GET type offset ...]"
        "Reads integers of any width."
        Lookup(bits::bitfield_ro);

    PfAdd "pfadd" -2 [WRITE DENYOOM FAST] (1 1 1) "hyperloglog" "2.8.9" "key [element ...]"
        "Adds elements to a HyperLogLog."
        Change(hyperloglog::pfadd);
    PfCount "pfcount" -2 [READONLY] (1 -1 1) "hyperloglog" "2.8.9" "key [key ...]"
        "Returns the approximate cardinality of the union."
        Change(hyperloglog::pfcount);
    PfMerge "pfmerge" -2 [WRITE DENYOOM] (1 -1 1) "hyperloglog" "2.8.9" "destkey [sourcekey ...]"
        "Stores the union of HyperLogLogs."
        Change(hyperloglog::pfmerge);

    HSet "hset" -4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.0.0" "key field value [field value ...]"
        "Sets fields; returns the number of new fields."
        Collection(|hash, call| hashes::hset(hash, call, false));
    HSetNx "hsetnx" 4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.0.0" "key field value" "Sets a field if it does not exist."
        Collection(hashes::hsetnx);
    HMSet "hmset" -4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.0.0" "key field value [field value ...]"
        "Sets fields; the old form of HSET."
        Collection(|hash, call| hashes::hset(hash, call, true));
    HGet "hget" 3 [READONLY FAST] (1 1 1) "hash" "2.0.0" "key field" "Returns the value of a field."
        Lookup(hashes::hget);
    HMGet "hmget" -3 [READONLY FAST] (1 1 1) "hash" "2.0.0" "key field [field ...]" "Returns the values of fields."
        Lookup(hashes::hmget);
    HDel "hdel" -3 [WRITE FAST] (1 1 1) "hash" "2.0.0" "key field [field ...]" "Removes fields."
        Collection(hashes::hdel);
    HExists "hexists" 3 [READONLY FAST] (1 1 1) "hash" "2.0.0" "key field" "Tests whether a field exists."
        Lookup(hashes::hexists);
    HLen "hlen" 2 [READONLY FAST] (1 1 1) "hash" "2.0.0" "key" "Returns the number of fields."
        Lookup(hashes::hlen);
    HStrLen "hstrlen" 3 [READONLY FAST] (1 1 1) "hash" "3.2.0" "key field" "Returns the length of a field's value."
        Lookup(hashes::hstrlen);
    HKeys "hkeys" 2 [READONLY] (1 1 1) "hash" "2.0.0" "key" "Returns all field names."
        Lookup(|turn, call| hashes::hgetall(turn, call, Parts::Names));
    HVals "hvals" 2 [READONLY] (1 1 1) "hash" "2.0.0" "key" "Returns all values."
        Lookup(|turn, call| hashes::hgetall(turn, call, Parts::Values));
    HGetAll "hgetall" 2 [READONLY] (1 1 1) "hash" "2.0.0" "key" "Returns all fields and values."
        Lookup(|turn, call| hashes::hgetall(turn, call, Parts::Both));
    HIncrBy "hincrby" 4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.0.0" "key field increment"
        "Increments an integer in a field."
        Collection(hashes::hincrby);
    HIncrByFloat "hincrbyfloat" 4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.6.0" "key field increment"
        "Increments a floating-point number in a field."
        Collection(hashes::hincrbyfloat);
    HScan "hscan" -3 [READONLY] (1 1 1) "hash" "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
        "Iterates over fields; returns the next cursor."
        Lookup(|turn, call| hashes::scan(turn, call, Kind::Hash));
    HRandField "hrandfield" -2 [READONLY] (1 1 1) "hash" "6.2.0" "key [count [WITHVALUES]]" "Returns random fields."
        Lookup(hashes::hrandfield);
    HExpire "hexpire" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "7.4.0"
        "key seconds [NX|XX|GT|LT] FIELDS number field ..." "Sets the lifetimes of fields in seconds."
        Change(|alone, call| field_lifetimes::expire(alone, call, lifetime::SECONDS, "hexpire"));
    HPExpire "hpexpire" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "7.4.0"
        "key milliseconds [NX|XX|GT|LT] FIELDS number field ..."
        "Sets the lifetimes of fields in milliseconds."
        Change(|alone, call| field_lifetimes::expire(alone, call, lifetime::MILLISECONDS, "hpexpire"));
    HExpireAt "hexpireat" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "7.4.0"
        "key unix-time [NX|XX|GT|LT] FIELDS number field ..."
        "Sets the expiry times of fields in seconds."
        Change(|alone, call| field_lifetimes::expire(alone, call, lifetime::UNIX_SECONDS, "hexpireat"));
    HPExpireAt "hpexpireat" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "7.4.0"
        "key unix-time-ms [NX|XX|GT|LT] FIELDS number field ..."
        "Sets the expiry times of fields in milliseconds."
        Change(|alone, call| field_lifetimes::expire(alone, call, lifetime::UNIX_MILLISECONDS, "hpexpireat"));
    HTtl "httl" -5 [READONLY FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "Returns the remaining lifetimes of fields in seconds."
        Lookup(|turn, call| field_lifetimes::ttl(turn, call, lifetime::SECONDS));
    HPTtl "hpttl" -5 [READONLY FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "Returns the remaining lifetimes of fields in milliseconds."
        Lookup(|turn, call| field_lifetimes::ttl(turn, call, lifetime::MILLISECONDS));
    HExpireTime "hexpiretime" -5 [READONLY FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "Returns the expiry times of fields in seconds."
        Lookup(|turn, call| field_lifetimes::ttl(turn, call, lifetime::UNIX_SECONDS));
    HPExpireTime "hpexpiretime" -5 [READONLY FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "Returns the expiry times of fields in milliseconds."
        Lookup(|turn, call| field_lifetimes::ttl(turn, call, lifetime::UNIX_MILLISECONDS));
    HPersist "hpersist" -5 [WRITE FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "Removes the lifetimes of fields."
        Change(field_lifetimes::persist);
    HGetDel "hgetdel" -5 [WRITE FAST] (1 1 1) "hash" "8.0.0" "key FIELDS number field ..."
        "Removes fields and returns their values."
        Change(field_lifetimes::hgetdel);
    HGetEx "hgetex" -5 [WRITE FAST] (1 1 1) "hash" "8.0.0"
        "key [EX seconds|PX milliseconds|EXAT unix-time|PXAT unix-time-ms|PERSIST] \
         FIELDS number field ..."
        "Returns the values of fields and sets or removes their lifetimes."
        Change(field_lifetimes::hgetex);
    HSetEx "hsetex" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "8.0.0"
        "key [FNX|FXX] [EX seconds|PX milliseconds|EXAT unix-time|PXAT unix-time-ms|KEEPTTL] \
         FIELDS number field value ..."
        "Sets fields and their lifetimes."
        Change(field_lifetimes::hsetex);

    SAdd "sadd" -3 [WRITE DENYOOM FAST] (1 1 1) "set" "1.0.0" "key member [member ...]"
        "Adds members; returns the number of new members."
        Collection(sets::sadd);
    SRem "srem" -3 [WRITE FAST] (1 1 1) "set" "1.0.0" "key member [member ...]" "Removes members."
        Collection(sets::srem);
    SIsMember "sismember" 3 [READONLY FAST] (1 1 1) "set" "1.0.0" "key member" "Tests whether a member exists."
        Lookup(|turn, call| sets::sismember(turn, call, false));
    SMIsMember "smismember" -3 [READONLY FAST] (1 1 1) "set" "6.2.0" "key member [member ...]"
        "Tests whether each member exists."
        Lookup(|turn, call| sets::sismember(turn, call, true));
    SMembers "smembers" 2 [READONLY] (1 1 1) "set" "1.0.0" "key" "Returns all members."
        Lookup(sets::smembers);
    SCard "scard" 2 [READONLY FAST] (1 1 1) "set" "1.0.0" "key" "Returns the number of members."
        Lookup(sets::scard);
    SPop "spop" -2 [WRITE FAST] (1 1 1) "set" "1.0.0" "key [count]" "Removes random members and returns them."
        Collection(sets::spop);
    SRandMember "srandmember" -2 [READONLY] (1 1 1) "set" "1.0.0" "key [count]" "Returns random members."
        Lookup(sets::srandmember);
    SMove "smove" 4 [WRITE FAST] (1 2 1) "set" "1.0.0" "source destination member" "Moves a member to another set."
        Change(sets::smove);
    SScan "sscan" -3 [READONLY] (1 1 1) "set" "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
        "Iterates over members; returns the next cursor."
        Lookup(|turn, call| hashes::scan(turn, call, Kind::Set));
    SInter "sinter" -2 [READONLY] (1 -1 1) "set" "1.0.0" "key [key ...]" "Returns the intersection of sets."
        LookupMany(|turn, call| sets::operate(turn, call, Operation::Inter));
    SInterCard "sintercard" -3 [READONLY] (2 0 1) "set" "7.0.0" "numkeys key [key ...] [LIMIT limit]"
        "Returns the size of the intersection of sets."
        LookupMany(sets::sintercard);
    SInterStore "sinterstore" -3 [WRITE DENYOOM] (1 -1 1) "set" "1.0.0" "destination key [key ...]"
        "Stores the intersection of sets."
        Change(|alone, call| sets::store(alone, call, Operation::Inter));
    SUnion "sunion" -2 [READONLY] (1 -1 1) "set" "1.0.0" "key [key ...]" "Returns the union of sets."
        LookupMany(|turn, call| sets::operate(turn, call, Operation::Union));
    SUnionStore "sunionstore" -3 [WRITE DENYOOM] (1 -1 1) "set" "1.0.0" "destination key [key ...]"
        "Stores the union of sets."
        Change(|alone, call| sets::store(alone, call, Operation::Union));
    SDiff "sdiff" -2 [READONLY] (1 -1 1) "set" "1.0.0" "key [key ...]"
        "Returns the members of the first set that are in none of the others."
        LookupMany(|turn, call| sets::operate(turn, call, Operation::Diff));
    SDiffStore "sdiffstore" -3 [WRITE DENYOOM] (1 -1 1) "set" "1.0.0" "destination key [key ...]"
        "Stores the members of the first set that are in none of the others."
        Change(|alone, call| sets::store(alone, call, Operation::Diff));

    LPush "lpush" -3 [WRITE DENYOOM FAST] (1 1 1) "list" "1.0.0" "key element [element ...]"
        "Adds elements to the head of a list."
        Collection(|list, call| lists::push(list, call, End::Left, false));
    RPush "rpush" -3 [WRITE DENYOOM FAST] (1 1 1) "list" "1.0.0" "key element [element ...]"
        "Adds elements to the tail of a list."
        Collection(|list, call| lists::push(list, call, End::Right, false));
    LPushX "lpushx" -3 [WRITE DENYOOM FAST] (1 1 1) "list" "2.2.0" "key element [element ...]"
        "Adds elements to the head of a list, if it exists."
        Collection(|list, call| lists::push(list, call, End::Left, true));
    RPushX "rpushx" -3 [WRITE DENYOOM FAST] (1 1 1) "list" "2.2.0" "key element [element ...]"
        "Adds elements to the tail of a list, if it exists."
        Collection(|list, call| lists::push(list, call, End::Right, true));
    LPop "lpop" -2 [WRITE FAST] (1 1 1) "list" "1.0.0" "key [count]" "Removes the first elements and returns them."
        Collection(|list, call| lists::pop(list, call, End::Left));
    RPop "rpop" -2 [WRITE FAST] (1 1 1) "list" "1.0.0" "key [count]" "Removes the last elements and returns them."
        Collection(|list, call| lists::pop(list, call, End::Right));
    LLen "llen" 2 [READONLY FAST] (1 1 1) "list" "1.0.0" "key" "Returns the number of elements."
        Lookup(lists::llen);
    LRange "lrange" 4 [READONLY] (1 1 1) "list" "1.0.0" "key start stop" "Returns a range of elements."
        Lookup(lists::lrange);
    LIndex "lindex" 3 [READONLY] (1 1 1) "list" "1.0.0" "key index" "Returns an element by its index."
        Lookup(lists::lindex);
    LSet "lset" 4 [WRITE DENYOOM] (1 1 1) "list" "1.0.0" "key index element" "Replaces an element."
        Collection(lists::lset);
    LRem "lrem" 4 [WRITE] (1 1 1) "list" "1.0.0" "key count element" "Removes elements equal to the given one."
        Change(lists::lrem);
    LTrim "ltrim" 4 [WRITE] (1 1 1) "list" "1.0.0" "key start stop" "Removes all elements outside a range."
        Collection(lists::ltrim);
    LInsert "linsert" 5 [WRITE DENYOOM] (1 1 1) "list" "2.2.0" "key BEFORE | AFTER pivot element"
        "Inserts an element before or after another."
        Change(lists::linsert);
    LPos "lpos" -3 [READONLY] (1 1 1) "list" "6.0.6" "key element [RANK rank] [COUNT matches] [MAXLEN len]"
        "Returns the index of an element."
        Lookup(lists::lpos);
    LMove "lmove" 5 [WRITE DENYOOM] (1 2 1) "list" "6.2.0" "source destination LEFT | RIGHT LEFT | RIGHT"
        "Moves an element to another list."
        Change(lists::lmove);
    RPopLPush "rpoplpush" 3 [WRITE DENYOOM] (1 2 1) "list" "1.2.0" "source destination"
        "Moves the last element to the head of another list."
        Change(lists::lmove);
    LMPop "lmpop" -4 [WRITE] (2 0 1) "list" "7.0.0" "numkeys key [key ...] LEFT | RIGHT [COUNT count]"
        "Removes elements from the first non-empty list and returns them."
        Change(lists::lmpop);
    BLPop "blpop" -3 [WRITE NOSCRIPT BLOCKING] (1 -2 1) "list" "2.0.0" "key [key ...] timeout"
        "Removes and returns the first element of the first non-empty list; waits if all are empty."
        Transaction(|session, alone, args, out| blocking::bpop(session, alone, args, out, Wanted::One(End::Left)));
    BRPop "brpop" -3 [WRITE NOSCRIPT BLOCKING] (1 -2 1) "list" "2.0.0" "key [key ...] timeout"
        "Removes and returns the last element of the first non-empty list; waits if all are empty."
        Transaction(|session, alone, args, out| blocking::bpop(session, alone, args, out, Wanted::One(End::Right)));
    BLMove "blmove" 6 [WRITE DENYOOM NOSCRIPT BLOCKING] (1 2 1) "list" "6.2.0"
        "source destination LEFT | RIGHT LEFT | RIGHT timeout"
        "Moves an element to another list; waits while the list is empty."
        Transaction(blocking::blmove);
    BRPopLPush "brpoplpush" 4 [WRITE DENYOOM NOSCRIPT BLOCKING] (1 2 1) "list" "2.2.0" "source destination timeout"
        "Moves the last element to the head of another list; waits while the list is empty."
        Transaction(blocking::brpoplpush);
    BLMPop "blmpop" -5 [WRITE BLOCKING] (3 0 1) "list" "7.0.0"
        "timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]"
        "Removes and returns elements of the first non-empty list; waits if all are empty."
        Transaction(blocking::blmpop);

    ZAdd "zadd" -4 [WRITE DENYOOM FAST] (1 1 1) "sorted-set" "1.2.0"
        "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]"
        "Sets the scores of members; returns the number of new members."
        Collection(|set, call| sorted_sets::zadd(set, call, false));
    ZIncrBy "zincrby" 4 [WRITE DENYOOM FAST] (1 1 1) "sorted-set" "1.2.0" "key increment member" "Increments a score."
        Collection(|set, call| sorted_sets::zadd(set, call, true));
    ZRem "zrem" -3 [WRITE FAST] (1 1 1) "sorted-set" "1.2.0" "key member [member ...]" "Removes members."
        Collection(sorted_sets::zrem);
    ZCard "zcard" 2 [READONLY FAST] (1 1 1) "sorted-set" "1.2.0" "key" "Returns the number of members."
        Lookup(sorted_sets::zcard);
    ZScore "zscore" 3 [READONLY FAST] (1 1 1) "sorted-set" "1.2.0" "key member" "Returns the score of a member."
        Lookup(|turn, call| sorted_sets::zscore(turn, call, false));
    ZMScore "zmscore" -3 [READONLY FAST] (1 1 1) "sorted-set" "6.2.0" "key member [member ...]"
        "Returns the scores of members."
        Lookup(|turn, call| sorted_sets::zscore(turn, call, true));
    ZRank "zrank" -3 [READONLY FAST] (1 1 1) "sorted-set" "2.0.0" "key member [WITHSCORE]"
        "Returns the rank of a member, by ascending score."
        Lookup(|turn, call| sorted_sets::zrank(turn, call, false));
    ZRevRank "zrevrank" -3 [READONLY FAST] (1 1 1) "sorted-set" "2.0.0" "key member [WITHSCORE]"
        "Returns the rank of a member, by descending score."
        Lookup(|turn, call| sorted_sets::zrank(turn, call, true));
    ZCount "zcount" 4 [READONLY FAST] (1 1 1) "sorted-set" "2.0.0" "key min max"
        "Counts the members in a range of scores."
        Lookup(|turn, call| sorted_sets::zcount(turn, call, By::Score));
    ZLexCount "zlexcount" 4 [READONLY FAST] (1 1 1) "sorted-set" "2.8.9" "key min max"
        "Counts the members in a lexicographical range, if all scores are equal."
        Lookup(|turn, call| sorted_sets::zcount(turn, call, By::Lex));
    ZRange "zrange" -4 [READONLY] (1 1 1) "sorted-set" "1.2.0"
        "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]"
        "Returns the members in a range of ranks, scores or names."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, None, None));
    ZRevRange "zrevrange" -4 [READONLY] (1 1 1) "sorted-set" "1.2.0" "key start stop [WITHSCORES]"
        "Returns a range of ranks in descending order; the old form of ZRANGE REV."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Rank), Some(true)));
    ZRangeByScore "zrangebyscore" -4 [READONLY] (1 1 1) "sorted-set" "1.0.5"
        "key min max [WITHSCORES] [LIMIT offset count]" "Returns a range of scores; the old form of ZRANGE BYSCORE."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Score), Some(false)));
    ZRevRangeByScore "zrevrangebyscore" -4 [READONLY] (1 1 1) "sorted-set" "2.2.0"
        "key max min [WITHSCORES] [LIMIT offset count]"
        "Returns a range of scores in descending order; the old form of ZRANGE BYSCORE REV."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Score), Some(true)));
    ZRangeByLex "zrangebylex" -4 [READONLY] (1 1 1) "sorted-set" "2.8.9" "key min max [LIMIT offset count]"
        "Returns a lexicographical range; the old form of ZRANGE BYLEX."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Lex), Some(false)));
    ZRevRangeByLex "zrevrangebylex" -4 [READONLY] (1 1 1) "sorted-set" "2.8.9" "key max min [LIMIT offset count]"
        "Returns a lexicographical range in descending order; the old form of ZRANGE BYLEX REV."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Lex), Some(true)));
    ZRangeStore "zrangestore" -5 [WRITE DENYOOM] (1 2 1) "sorted-set" "6.2.0"
        "destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]"
        "Stores the members that ZRANGE would return."
        Change(sorted_sets::zrangestore);
    ZRemRangeByRank "zremrangebyrank" 4 [WRITE] (1 1 1) "sorted-set" "2.0.0" "key start stop"
        "Removes the members in a range of ranks."
        Collection(|set, call| sorted_sets::zremrange(set, call, By::Rank));
    ZRemRangeByScore "zremrangebyscore" 4 [WRITE] (1 1 1) "sorted-set" "1.2.0" "key min max"
        "Removes the members in a range of scores."
        Collection(|set, call| sorted_sets::zremrange(set, call, By::Score));
    ZRemRangeByLex "zremrangebylex" 4 [WRITE] (1 1 1) "sorted-set" "2.8.9" "key min max"
        "Removes the members in a lexicographical range."
        Collection(|set, call| sorted_sets::zremrange(set, call, By::Lex));
    ZPopMin "zpopmin" -2 [WRITE FAST] (1 1 1) "sorted-set" "5.0.0" "key [count]"
        "Removes the members with the lowest scores and returns them."
        Collection(|set, call| sorted_sets::zpop(set, call, Extreme::Min));
    ZPopMax "zpopmax" -2 [WRITE FAST] (1 1 1) "sorted-set" "5.0.0" "key [count]"
        "Removes the members with the highest scores and returns them."
        Collection(|set, call| sorted_sets::zpop(set, call, Extreme::Max));
    ZMPop "zmpop" -4 [WRITE] (2 0 1) "sorted-set" "7.0.0" "numkeys key [key ...] MIN | MAX [COUNT count]"
        "Removes members of the first non-empty sorted set and returns them."
        Change(sorted_sets::zmpop);
    BZPopMin "bzpopmin" -3 [WRITE NOSCRIPT BLOCKING FAST] (1 -2 1) "sorted-set" "5.0.0" "key [key ...] timeout"
        "Removes and returns the member with the lowest score in the first non-empty set; waits if all are empty."
        Transaction(|session, alone, args, out| {
            blocking::bpop(session, alone, args, out, Wanted::OneScored(Extreme::Min))
        });
    BZPopMax "bzpopmax" -3 [WRITE NOSCRIPT BLOCKING FAST] (1 -2 1) "sorted-set" "5.0.0" "key [key ...] timeout"
        "Removes and returns the member with the highest score in the first non-empty set; waits if all are empty."
        Transaction(|session, alone, args, out| {
            blocking::bpop(session, alone, args, out, Wanted::OneScored(Extreme::Max))
        });
    BZMPop "bzmpop" -5 [WRITE BLOCKING] (3 0 1) "sorted-set" "7.0.0"
        "timeout numkeys key [key ...] MIN | MAX [COUNT count]"
        "Removes and returns members of the first non-empty sorted set; waits if all are empty."
        Transaction(blocking::bzmpop);
    ZRandMember "zrandmember" -2 [READONLY] (1 1 1) "sorted-set" "6.2.0" "key [count [WITHSCORES]]"
        "Returns random members."
        Lookup(sorted_sets::zrandmember);
    ZScan "zscan" -3 [READONLY] (1 1 1) "sorted-set" "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
        "Iterates over members and scores; returns the next cursor."
        Lookup(|turn, call| hashes::scan(turn, call, Kind::SortedSet));
    ZUnion "zunion" -3 [READONLY] (2 0 1) "sorted-set" "6.2.0"
        "numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]"
        "Returns the union of sorted sets, with combined scores."
        LookupMany(|turn, call| sorted_operations::operate(turn, call, Operation::Union));
    ZUnionStore "zunionstore" -4 [WRITE DENYOOM] (1 1 1) "sorted-set" "2.0.0"
        "destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]"
        "Stores the union of sorted sets, with combined scores."
        Change(|alone, call| sorted_operations::operate_and_store(alone, call, Operation::Union));
    ZInter "zinter" -3 [READONLY] (2 0 1) "sorted-set" "6.2.0"
        "numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]"
        "Returns the intersection of sorted sets, with combined scores."
        LookupMany(|turn, call| sorted_operations::operate(turn, call, Operation::Inter));
    ZInterCard "zintercard" -3 [READONLY] (2 0 1) "sorted-set" "7.0.0" "numkeys key [key ...] [LIMIT limit]"
        "Returns the size of the intersection of sorted sets."
        LookupMany(sorted_operations::zintercard);
    ZInterStore "zinterstore" -4 [WRITE DENYOOM] (1 1 1) "sorted-set" "2.0.0"
        "destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]"
        "Stores the intersection of sorted sets, with combined scores."
        Change(|alone, call| sorted_operations::operate_and_store(alone, call, Operation::Inter));
    ZDiff "zdiff" -3 [READONLY] (2 0 1) "sorted-set" "6.2.0" "numkeys key [key ...] [WITHSCORES]"
        "Returns the members of the first sorted set that are in none of the others."
        LookupMany(|turn, call| sorted_operations::operate(turn, call, Operation::Diff));
    ZDiffStore "zdiffstore" -4 [WRITE DENYOOM] (1 1 1) "sorted-set" "6.2.0" "destination numkeys key [key ...]"
        "Stores the members of the first sorted set that are in none of the others."
        Change(|alone, call| sorted_operations::operate_and_store(alone, call, Operation::Diff));

    GeoAdd "geoadd" -5 [WRITE DENYOOM] (1 1 1) "geo" "3.2.0"
        "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]"
        "Adds members with their positions to a sorted set."
        Collection(geo::geoadd);
    GeoHash "geohash" -2 [READONLY] (1 1 1) "geo" "3.2.0" "key [member [member ...]]"
        "Returns the geohashes of members."
        Lookup(geo::geohash);
    GeoPos "geopos" -2 [READONLY] (1 1 1) "geo" "3.2.0" "key [member [member ...]]"
        "Returns the longitudes and latitudes of members."
        Lookup(geo::geopos);
    GeoDist "geodist" -4 [READONLY] (1 1 1) "geo" "3.2.0" "key member1 member2 [M | KM | FT | MI]"
        "Returns the distance between two members."
        Lookup(geo::geodist);
    GeoSearch "geosearch" -7 [READONLY] (1 1 1) "geo" "6.2.0"
        "key FROMMEMBER member | FROMLONLAT longitude latitude BYRADIUS radius unit | BYBOX width height unit \
         [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]"
        "Returns the members within a circle or a box."
        Lookup(|turn, call| geo::search(turn, call, Form::Search));
    GeoSearchStore "geosearchstore" -8 [WRITE DENYOOM] (1 2 1) "geo" "6.2.0"
        "destination source FROMMEMBER member | FROMLONLAT longitude latitude \
         BYRADIUS radius unit | BYBOX width height unit [ASC | DESC] [COUNT count [ANY]] [STOREDIST]"
        "Stores the members within a circle or a box."
        Change(|alone, call| geo::search_and_store(alone, call, Form::SearchStore));
    GeoRadius "georadius" -6 [WRITE DENYOOM] (1 1 1) "geo" "3.2.0"
        "key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] \
         [STORE key | STOREDIST key]"
        "Returns the members within a circle; the old form of GEOSEARCH."
        Change(|alone, call| geo::search_and_store(alone, call, Form::Radius(true)));
    GeoRadiusRo "georadius_ro" -6 [READONLY] (1 1 1) "geo" "3.2.10"
        "key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]"
        "Returns the members within a circle; GEORADIUS without STORE."
        Lookup(|turn, call| geo::search(turn, call, Form::Radius(false)));
    GeoRadiusByMember "georadiusbymember" -5 [WRITE DENYOOM] (1 1 1) "geo" "3.2.0"
        "key member radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] \
         [STORE key | STOREDIST key]"
        "Returns the members within a circle around a member; the old form of GEOSEARCH."
        Change(|alone, call| geo::search_and_store(alone, call, Form::RadiusByMember(true)));
    GeoRadiusByMemberRo "georadiusbymember_ro" -5 [READONLY] (1 1 1) "geo" "3.2.10"
        "key member radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]"
        "Returns the members within a circle around a member; GEORADIUSBYMEMBER without STORE."
        Lookup(|turn, call| geo::search(turn, call, Form::RadiusByMember(false)));

    XAdd "xadd" -5 [WRITE DENYOOM FAST] (1 1 1) "stream" "5.0.0"
        "key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value [field value ...]"
        "Adds an entry; returns its ID."
        Collection(streams::xadd);
    XLen "xlen" 2 [READONLY FAST] (1 1 1) "stream" "5.0.0" "key" "Returns the number of entries."
        Lookup(streams::xlen);
    XRange "xrange" -4 [READONLY] (1 1 1) "stream" "5.0.0" "key start end [COUNT count]"
        "Returns the entries in a range of IDs."
        Lookup(|turn, call| streams::xrange(turn, call, false));
    XRevRange "xrevrange" -4 [READONLY] (1 1 1) "stream" "5.0.0" "key end start [COUNT count]"
        "Returns the entries in a range of IDs, newest first."
        Lookup(|turn, call| streams::xrange(turn, call, true));
    XDel "xdel" -3 [WRITE FAST] (1 1 1) "stream" "5.0.0" "key id [id ...]" "Removes entries."
        Collection(streams::xdel);
    XTrim "xtrim" -4 [WRITE] (1 1 1) "stream" "5.0.0" "key MAXLEN | MINID [= | ~] threshold [LIMIT count]"
        "Removes the oldest entries."
        Change(streams::xtrim);
    XRead "xread" -4 [READONLY BLOCKING] (4 0 1) "stream" "5.0.0"
        "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]"
        "Returns the entries after an ID; with BLOCK, waits for some."
        Transaction(|session, alone, args, out| blocking::xread(session, alone, args, out, false));
    XReadGroup "xreadgroup" -7 [WRITE BLOCKING] (7 0 1) "stream" "5.0.0"
        "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]"
        "Returns entries not yet delivered to a consumer group, or the consumer's own pending ones."
        Transaction(|session, alone, args, out| blocking::xread(session, alone, args, out, true));
    XGroup "xgroup" -2 [WRITE DENYOOM] (2 2 1) "stream" "5.0.0"
        "CREATE | SETID | DESTROY | CREATECONSUMER | DELCONSUMER | HELP [...]"
        "Creates, changes and removes consumer groups."
        Change(stream_groups::xgroup);
    XAck "xack" -4 [WRITE FAST] (1 1 1) "stream" "5.0.0" "key group id [id ...]"
        "Acknowledges entries, so that they are no longer pending."
        Collection(stream_groups::xack);
    XPending "xpending" -3 [READONLY] (1 1 1) "stream" "5.0.0"
        "key group [[IDLE min-idle-time] start end count [consumer]]"
        "Lists entries that were delivered but not acknowledged."
        Lookup(stream_groups::xpending);
    XClaim "xclaim" -6 [WRITE FAST] (1 1 1) "stream" "5.0.0"
        "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-ms] [RETRYCOUNT count] [FORCE] \
         [JUSTID] [LASTID id]"
        "Transfers pending entries to a consumer."
        Change(stream_groups::xclaim);
    XAutoClaim "xautoclaim" -6 [WRITE FAST] (1 1 1) "stream" "6.2.0"
        "key group consumer min-idle-time start [COUNT count] [JUSTID]"
        "Transfers pending entries that have been idle long enough to a consumer."
        Change(stream_groups::xautoclaim);
    XInfo "xinfo" -2 [READONLY] (2 2 1) "stream" "5.0.0" "STREAM | GROUPS | CONSUMERS | HELP [...]"
        "Describes a stream, its groups or their consumers."
        Lookup(stream_info::xinfo);
    XSetid "xsetid" -3 [WRITE DENYOOM FAST] (1 1 1) "stream" "5.0.0"
        "key last-id [ENTRIESADDED count] [MAXDELETEDID id]"
        "Sets the last ID of a stream."
        Change(streams::xsetid);

    Del "del" -2 [WRITE RUN] (1 -1 1) "generic" "1.0.0" "key [key ...]" "Removes keys."
        Change(keys::del);
    Unlink "unlink" -2 [WRITE FAST RUN] (1 -1 1) "generic" "4.0.0" "key [key ...]"
        "Removes keys; identical to DEL in this server."
        Change(keys::del);
    Exists "exists" -2 [READONLY FAST RUN_OF_KEYS] (1 -1 1) "generic" "1.0.0" "key [key ...]"
        "Counts the keys that exist."
        Lookup(keys::exists);
    Type "type" 2 [READONLY FAST] (1 1 1) "generic" "1.0.0" "key" "Returns the type of a value, or none."
        Lookup(keys::type_of);
    Touch "touch" -2 [READONLY FAST RUN_OF_KEYS] (1 -1 1) "generic" "3.2.1" "key [key ...]"
        "Marks keys as used; returns how many exist."
        Lookup(keys::exists);
    Copy "copy" -3 [WRITE DENYOOM] (1 2 1) "generic" "6.2.0" "source destination [DB database] [REPLACE]"
        "Copies a value and its lifetime to another key."
        Change(keys::copy);
    Move "move" 3 [WRITE FAST] (1 1 1) "generic" "1.0.0" "key database"
        "Moves a key to another database, unless the key exists there."
        Change(keys::move_to);
    Rename "rename" 3 [WRITE] (1 2 1) "generic" "1.0.0" "key newkey"
        "Renames a key, replacing any value of the new name."
        Change(|alone, call| keys::rename(alone, call, false));
    RenameNx "renamenx" 3 [WRITE FAST] (1 2 1) "generic" "1.0.0" "key newkey"
        "Renames a key, unless the new name exists."
        Change(|alone, call| keys::rename(alone, call, true));
    RandomKey "randomkey" 1 [READONLY] (0 0 0) "generic" "1.0.0" "" "Returns a random key."
        Scan(|space, call, _| keys::random_key(space, call));
    Keys "keys" 2 [READONLY WAITS] (0 0 0) "generic" "1.0.0" "pattern" "Returns all keys that match a pattern."
        Scan(keys::keys);
    Scan "scan" -2 [READONLY] (0 0 0) "generic" "2.8.0" "cursor [MATCH pattern] [COUNT count] [TYPE type]"
        "Iterates over keys; returns the next cursor."
        Scan(|space, call, _| keys::scan(space, call));
    Dump "dump" 2 [READONLY] (1 1 1) "generic" "2.6.0" "key" "Returns a value in the format that RESTORE reads."
        Lookup(dump::dump);
    Restore "restore" -4 [WRITE DENYOOM] (1 1 1) "generic" "2.6.0"
        "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]"
        "Stores a value that DUMP returned."
        Change(dump::restore);
    Migrate "migrate" -6 [WRITE NOSCRIPT WAITS] (3 3 1) "generic" "2.6.0"
        "host port key | \"\" database timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] \
         [KEYS key [key ...]]" "Moves keys to another server."
        Session(migrate::migrate);
    Object "object" -2 [READONLY] (2 2 1) "generic" "2.2.3" "ENCODING | REFCOUNT | IDLETIME | FREQ | HELP [key]"
        "Returns how Redis would store a value, and how it is used."
        Lookup(keys::object);
    Wait "wait" 3 [NOSCRIPT] (0 0 0) "generic" "3.0.0" "numreplicas timeout"
        "Waits for replicas until the timeout; returns 0, as there are none."
        Session(introspect::wait);
    Expire "expire" -3 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "1.0.0" "key seconds [NX | XX | GT | LT]"
        "Sets the lifetime of a key in seconds."
        Edit(|call, now_ms| lifetime::expire(call, now_ms, lifetime::SECONDS, "expire"));
    PExpire "pexpire" -3 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "2.6.0" "key milliseconds [NX | XX | GT | LT]"
        "Sets the lifetime of a key in milliseconds."
        Edit(|call, now_ms| lifetime::expire(call, now_ms, lifetime::MILLISECONDS, "pexpire"));
    ExpireAt "expireat" -3 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "1.2.0" "key unix-time [NX | XX | GT | LT]"
        "Sets the expiry time of a key in seconds."
        Edit(|call, now_ms| lifetime::expire(call, now_ms, lifetime::UNIX_SECONDS, "expireat"));
    PExpireAt "pexpireat" -3 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "2.6.0" "key unix-time-ms [NX | XX | GT | LT]"
        "Sets the expiry time of a key in milliseconds."
        Edit(|call, now_ms| lifetime::expire(call, now_ms, lifetime::UNIX_MILLISECONDS, "pexpireat"));
    Ttl "ttl" 2 [READONLY FAST] (1 1 1) "generic" "1.0.0" "key" "Returns the remaining lifetime of a key in seconds."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::SECONDS));
    PTtl "pttl" 2 [READONLY FAST] (1 1 1) "generic" "2.6.0" "key"
        "Returns the remaining lifetime of a key in milliseconds."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::MILLISECONDS));
    ExpireTime "expiretime" 2 [READONLY FAST] (1 1 1) "generic" "7.0.0" "key"
        "Returns the expiry time of a key in seconds."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::UNIX_SECONDS));
    PExpireTime "pexpiretime" 2 [READONLY FAST] (1 1 1) "generic" "7.0.0" "key"
        "Returns the expiry time of a key in milliseconds."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::UNIX_MILLISECONDS));
    Persist "persist" 2 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "2.2.0" "key" "Removes the lifetime of a key."
        Edit(|_, _| Ok(Plan::Persist));
    Sort "sort" -2 [WRITE DENYOOM] (1 1 1) "generic" "1.0.0"
        "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]"
        "Sorts the elements of a list, set or sorted set; returns or stores them, or values they refer to."
        Change(sort::sort_and_store);
    SortRo "sort_ro" -2 [READONLY] (1 1 1) "generic" "7.0.0"
        "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]"
        "Sorts elements without storing the result."
        LookupMany(sort::sort_ro);

    Multi "multi" 1 [NOSCRIPT LOADING STALE FAST NOW] (0 0 0) "transactions" "1.2.0" "" "Begins a transaction."
        Session(connection::multi);
    Exec "exec" 1 [NOSCRIPT LOADING STALE NOW] (0 0 0) "transactions" "1.2.0" ""
        "Executes the queued commands atomically."
        Transaction(exec);
    Discard "discard" 1 [NOSCRIPT LOADING STALE FAST NOW] (0 0 0) "transactions" "2.0.0" ""
        "Discards the queued commands."
        Session(connection::discard);
    Watch "watch" -2 [NOSCRIPT LOADING STALE FAST NOW] (1 -1 1) "transactions" "2.2.0" "key [key ...]"
        "Makes the next transaction fail if any of the keys changes first."
        Transaction(connection::watch);
    Unwatch "unwatch" 1 [NOSCRIPT LOADING STALE FAST] (0 0 0) "transactions" "2.2.0" "" "Stops watching all keys."
        Transaction(connection::unwatch);

    Eval "eval" -3 [NOSCRIPT STALE WAITS] (3 0 1) "scripting" "2.6.0"
        "script numkeys [key [key ...]] [arg [arg ...]]" "Runs a Lua script."
        Transaction(|session, alone, args, out| {
            script::eval(session, alone, args, out, [false, false], execute_within)
        });
    EvalSha "evalsha" -3 [NOSCRIPT STALE WAITS] (3 0 1) "scripting" "2.6.0"
        "sha1 numkeys [key [key ...]] [arg [arg ...]]" "Runs a cached Lua script by its SHA-1."
        Transaction(|session, alone, args, out| {
            script::eval(session, alone, args, out, [true, false], execute_within)
        });
    EvalRo "eval_ro" -3 [NOSCRIPT STALE WAITS] (3 0 1) "scripting" "7.0.0"
        "script numkeys [key [key ...]] [arg [arg ...]]" "Runs a Lua script that may not write."
        Transaction(|session, alone, args, out| {
            script::eval(session, alone, args, out, [false, true], execute_within)
        });
    EvalShaRo "evalsha_ro" -3 [NOSCRIPT STALE WAITS] (3 0 1) "scripting" "7.0.0"
        "sha1 numkeys [key [key ...]] [arg [arg ...]]" "Runs a cached Lua script that may not write."
        Transaction(|session, alone, args, out| {
            script::eval(session, alone, args, out, [true, true], execute_within)
        });
    Script "script" -2 [NOSCRIPT] (0 0 0) "scripting" "2.6.0" "LOAD | EXISTS | FLUSH | KILL | HELP [...]"
        "Caches scripts, checks for them, removes them, stops the running one."
        Session(script::script);
    Function "function" -2 [NOSCRIPT] (0 0 0) "scripting" "7.0.0"
        "LIST | STATS | FLUSH | DUMP | RESTORE | DELETE | KILL | HELP [...]"
        "Answers as a server without function libraries; none can be loaded."
        Session(extensions::function);
    FCall "fcall" -3 [NOSCRIPT STALE] (3 0 1) "scripting" "7.0.0" "function numkeys [key [key ...]] [arg [arg ...]]"
        "Returns an error: this server has no functions."
        Session(extensions::call);
    FCallRo "fcall_ro" -3 [NOSCRIPT STALE READONLY] (3 0 1) "scripting" "7.0.0"
        "function numkeys [key [key ...]] [arg [arg ...]]" "Returns an error: this server has no functions."
        Session(extensions::call);

    Auth "auth" -2 [NOSCRIPT LOADING STALE FAST NO_AUTH] (0 0 0) "connection" "1.0.0" "[username] password"
        "Authenticates the connection."
        Session(connection::auth);
    Hello "hello" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH] (0 0 0) "connection" "6.0.0"
        "[protover [AUTH username password] [SETNAME clientname]]"
        "Selects RESP2 or RESP3; optionally authenticates and names the connection."
        Session(connection::hello);
    Ping "ping" -1 [FAST SUBSCRIBED] (0 0 0) "connection" "1.0.0" "[message]" "Returns PONG, or the message."
        Session(connection::ping);
    Echo "echo" 2 [FAST] (0 0 0) "connection" "1.0.0" "message" "Returns the message."
        Session(connection::echo);
    Select "select" 2 [LOADING STALE FAST] (0 0 0) "connection" "1.0.0" "index" "Selects a database."
        Session(connection::select);
    Quit "quit" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH SUBSCRIBED NOW] (0 0 0) "connection" "1.0.0" ""
        "Closes the connection."
        Session(connection::quit);
    Reset "reset" 1 [NOSCRIPT LOADING STALE FAST NO_AUTH SUBSCRIBED NOW] (0 0 0) "connection" "6.2.0" ""
        "Resets the connection to its initial state."
        Session(connection::reset);
    Client "client" -2 [NOSCRIPT LOADING STALE] (0 0 0) "connection" "2.4.0"
        "ID | SETNAME | GETNAME | SETINFO | INFO | LIST | KILL | REPLY | NO-EVICT | NO-TOUCH | PAUSE | UNPAUSE | \
         UNBLOCK [...]"
        "Describes, names, configures and closes connections."
        Session(client::client);

    Subscribe "subscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "channel [channel ...]" "Subscribes to channels."
        Session(|session, args, out| pubsub::subscribe(session, args, out, Subscription::Channel));
    Unsubscribe "unsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "[channel ...]" "Unsubscribes from channels; without arguments, from all."
        Session(|session, args, out| pubsub::unsubscribe(session, args, out, Subscription::Channel));
    PSubscribe "psubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "pattern [pattern ...]" "Subscribes to channels that match patterns."
        Session(|session, args, out| pubsub::subscribe(session, args, out, Subscription::Pattern));
    PUnsubscribe "punsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "[pattern ...]" "Unsubscribes from patterns; without arguments, from all."
        Session(|session, args, out| pubsub::unsubscribe(session, args, out, Subscription::Pattern));
    Publish "publish" 3 [PUBSUB LOADING STALE FAST] (0 0 0) "pubsub" "2.0.0" "channel message"
        "Sends a message to the subscribers of a channel."
        Session(pubsub::publish);
    SSubscribe "ssubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (1 -1 1) "pubsub" "7.0.0"
        "shardchannel [shardchannel ...]" "Subscribes to shard channels."
        Session(|session, args, out| pubsub::subscribe(session, args, out, Subscription::ShardChannel));
    SUnsubscribe "sunsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (1 -1 1) "pubsub" "7.0.0"
        "[shardchannel ...]" "Unsubscribes from shard channels; without arguments, from all."
        Session(|session, args, out| pubsub::unsubscribe(session, args, out, Subscription::ShardChannel));
    SPublish "spublish" 3 [PUBSUB LOADING STALE FAST] (1 1 1) "pubsub" "7.0.0" "shardchannel message"
        "Sends a message to the subscribers of a shard channel."
        Session(pubsub::publish_in_shard);
    PubSub "pubsub" -2 [PUBSUB LOADING STALE] (0 0 0) "pubsub" "2.8.0"
        "CHANNELS | NUMSUB | NUMPAT | SHARDCHANNELS | SHARDNUMSUB | HELP [...]"
        "Describes the current subscriptions."
        Session(pubsub::ask);

    Cluster "cluster" -2 [LOADING STALE] (0 0 0) "cluster" "3.0.0"
        "SLOTS | SHARDS | NODES | INFO | MYID | KEYSLOT | COUNTKEYSINSLOT | REPLICAS | HELP [...]"
        "Describes the nodes and slots of the cluster (with --dict only)."
        Session(cluster::cluster);
    ReadOnly "readonly" 1 [LOADING STALE FAST] (0 0 0) "cluster" "3.0.0" ""
        "Accepted; reads are always allowed here."
        Session(cluster::accept);
    ReadWrite "readwrite" 1 [LOADING STALE FAST] (0 0 0) "cluster" "3.0.0" "" "Accepted; without effect here."
        Session(cluster::accept);
    Asking "asking" 1 [FAST] (0 0 0) "cluster" "3.0.0" "" "Accepted; this server never redirects with ASK."
        Session(cluster::accept);

    Command "command" -1 [LOADING STALE] (0 0 0) "server" "2.8.13" "[COUNT | DOCS | INFO | LIST | GETKEYS | HELP ...]"
        "Describes the server's commands."
        Session(introspect::command);
    Info "info" -1 [LOADING STALE] (0 0 0) "server" "1.0.0" "[section ...]" "Returns statistics about the server."
        Session(info::info);
    Config "config" -2 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "2.0.0" "GET | SET | RESETSTAT | HELP [...]"
        "Reads and changes configuration parameters."
        Session(config::config);
    DbSize "dbsize" 1 [READONLY FAST] (0 0 0) "server" "1.0.0" "" "Returns the number of keys in the database."
        Scan(|space, call, _| keys::db_size(space, call));
    Time "time" 1 [LOADING STALE FAST] (0 0 0) "server" "2.6.0" "" "Returns the server's time."
        Session(introspect::time);
    FlushDb "flushdb" -1 [WRITE WAITS] (0 0 0) "server" "1.0.0" "[ASYNC | SYNC]" "Removes all keys of the database."
        Change(|alone, call| keys::flush(alone, call, false));
    FlushAll "flushall" -1 [WRITE WAITS] (0 0 0) "server" "1.0.0" "[ASYNC | SYNC]" "Removes all keys of all databases."
        Change(|alone, call| keys::flush(alone, call, true));
    SwapDb "swapdb" 3 [WRITE FAST WAITS] (0 0 0) "server" "4.0.0" "index1 index2" "Swaps two databases."
        Change(keys::swap_db);
    Debug "debug" -2 [ADMIN NOSCRIPT LOADING STALE NO_MULTI] (0 0 0) "server" "1.0.0" "SLEEP seconds | HELP"
        "Makes this connection sleep."
        Session(introspect::debug);
    Save "save" 1 [ADMIN NOSCRIPT NO_MULTI WAITS] (0 0 0) "server" "1.0.0" ""
        "Writes a checkpoint of the file and waits for it."
        Session(introspect::save);
    BgSave "bgsave" -1 [ADMIN NOSCRIPT] (0 0 0) "server" "1.0.0" "[SCHEDULE]" "Starts a checkpoint of the file."
        Session(introspect::begin_save);
    LastSave "lastsave" 1 [LOADING STALE FAST] (0 0 0) "server" "1.0.0" ""
        "Returns the time of the last complete checkpoint."
        Session(introspect::last_save);
    Shutdown "shutdown" -1 [ADMIN NOSCRIPT LOADING STALE NO_MULTI] (0 0 0) "server" "1.0.0"
        "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]" "Stops the server."
        Session(introspect::shutdown);
    SlowLog "slowlog" -2 [ADMIN LOADING STALE] (0 0 0) "server" "2.2.12" "GET [count] | LEN | RESET | HELP"
        "Lists the slowest recent commands."
        Session(introspect::slow_log);
    Latency "latency" -2 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "2.8.13"
        "HISTOGRAM [command ...] | RESET | LATEST | HELP" "Returns latency histograms of commands."
        Session(introspect::latency);
    Monitor "monitor" 1 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "1.0.0" ""
        "Streams every command that the server executes."
        Session(introspect::monitor);
    Memory "memory" -2 [READONLY] (2 2 1) "server" "4.0.0"
        "USAGE key [SAMPLES count] | STATS | PURGE | DOCTOR | MALLOC-STATS | HELP"
        "Reports the memory of a key, or of the server."
        Lookup(introspect::memory);
    Module "module" -2 [ADMIN NOSCRIPT] (0 0 0) "server" "4.0.0" "LIST | HELP" "Lists modules; there are none."
        Session(extensions::module);
    Role "role" 1 [LOADING STALE FAST] (0 0 0) "server" "2.8.12" ""
        "Reports that this server is a master without replicas."
        Session(introspect::role);
    Acl "acl" -2 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "6.0.0"
        "SETUSER | GETUSER | DELUSER | LIST | USERS | WHOAMI | CAT | GENPASS | DRYRUN | LOG | LOAD | SAVE | HELP [...]"
        "Manages users and their permissions."
        Session(acl::acl);
    HtStats "ht.stats" -1 [READONLY WAITS] (0 0 0) "server" "splitpoint 0.1" "[SAMPLE buckets]"
        "Samples the table: pairs per bucket and lookup costs."
        Scan(|space, call, _| stats::ht_stats(space, call));
    HtCompact "ht.compact" 1 [ADMIN NOSCRIPT NO_MULTI WAITS] (0 0 0) "server" "splitpoint 0.1" ""
        "Returns unused file space without blocking clients."
        Session(introspect::compact);
    } };
}

pub(super) use rows;
