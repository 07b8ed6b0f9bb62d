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
    Get "get" 2 [READONLY FAST RUN] (1 1 1) "string" "1.0.0" "key" "The value of a key."
        Lookup(strings::get);
    Set "set" -3 [WRITE DENYOOM RUN RUN_OF_EDITS] (1 1 1) "string" "1.0.0"
        "key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] \
         [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time-ms | KEEPTTL]"
        "Stores a value, on conditions, with a lifetime."
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
        "Stores a value and returns the earlier one."
        Edit(strings::getset);
    GetEx "getex" -2 [WRITE FAST RUN_OF_EDITS] (1 1 1) "string" "6.2.0"
        "key [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time-ms | PERSIST]"
        "The value of a key, and changes its lifetime."
        Edit(strings::getex);
    GetDel "getdel" 2 [WRITE FAST] (1 1 1) "string" "6.2.0" "key" "The value of a key, and removes it."
        Change(strings::getdel);
    DelEx "delex" -2 [WRITE FAST] (1 1 1) "string" "8.4.0"
        "key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]"
        "Removes a key if its value is, or is not, the given one."
        Change(strings::delex);
    Digest "digest" 2 [READONLY FAST] (1 1 1) "string" "8.4.0" "key" "The XXH3 hash of a value, in hexadecimal digits."
        Lookup(strings::digest);
    MGet "mget" -2 [READONLY FAST RUN_OF_KEYS] (1 -1 1) "string" "1.0.0" "key [key ...]" "The values of several keys."
        Lookup(strings::mget);
    MSet "mset" -3 [WRITE DENYOOM] (1 -1 2) "string" "1.0.1" "key value [key value ...]"
        "Stores several values as one change."
        Change(|alone, call| strings::mset(alone, call, false));
    MSetNx "msetnx" -3 [WRITE DENYOOM] (1 -1 2) "string" "1.0.1" "key value [key value ...]"
        "Stores several values as one change if all keys are absent."
        Change(|alone, call| strings::mset(alone, call, true));
    MSetEx "msetex" -4 [WRITE DENYOOM] (2 0 2) "string" "8.4.0"
        "numkeys key value [key value ...] [NX | XX] \
         [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time-ms | \
         KEEPTTL]" "Stores values with one lifetime, all or none."
        Change(strings::msetex);
    Append "append" -3 [WRITE DENYOOM FAST RUN] (1 1 1) "string" "2.0.0" "key value [MAXLEN bytes]"
        "Appends to a value, unless it would be longer; an absent key begins empty."
        Change(strings::append);
    StrLen "strlen" 2 [READONLY FAST RUN] (1 1 1) "string" "2.2.0" "key" "The length of a value."
        Lookup(strings::strlen);
    GetRange "getrange" 4 [READONLY] (1 1 1) "string" "2.4.0" "key start end" "A part of a value."
        Lookup(strings::getrange);
    SubStr "substr" 4 [READONLY] (1 1 1) "string" "1.0.0" "key start end"
        "A part of a value: the old name of GETRANGE."
        Lookup(strings::getrange);
    SetRange "setrange" 4 [WRITE DENYOOM] (1 1 1) "string" "2.2.0" "key offset value"
        "Overwrites a part of a value, after zeros where it is shorter."
        Change(strings::setrange);
    Incr "incr" 2 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key" "Adds one to a number."
        Edit(|_, _| strings::incr_by(1));
    Decr "decr" 2 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key" "Subtracts one from a number."
        Edit(|_, _| strings::incr_by(-1));
    IncrBy "incrby" 3 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key increment" "Adds to a number."
        Edit(strings::incr_by_argument);
    DecrBy "decrby" 3 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "1.0.0" "key decrement"
        "Subtracts from a number."
        Edit(strings::decr_by);
    IncrByFloat "incrbyfloat" 3 [WRITE DENYOOM FAST RUN_OF_EDITS] (1 1 1) "string" "2.6.0" "key increment"
        "Adds to a decimal number."
        Edit(strings::incr_by_float);
    Lcs "lcs" -3 [READONLY] (1 2 1) "string" "7.0.0" "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]"
        "The longest common subsequence of two values."
        Lookup(bits::lcs);

    SetBit "setbit" 4 [WRITE DENYOOM] (1 1 1) "bitmap" "2.2.0" "key offset value"
        "Sets or clears a bit; returns the earlier one."
        Change(bits::setbit);
    GetBit "getbit" 3 [READONLY FAST] (1 1 1) "bitmap" "2.2.0" "key offset" "A bit of a value."
        Lookup(bits::getbit);
    BitCount "bitcount" -2 [READONLY] (1 1 1) "bitmap" "2.6.0" "key [start end [BYTE | BIT]]" "How many bits are set."
        Lookup(bits::bitcount);
    BitPos "bitpos" -3 [READONLY] (1 1 1) "bitmap" "2.8.7" "key bit [start [end [BYTE | BIT]]]"
        "Where the first bit is that is set, or clear."
        Lookup(bits::bitpos);
    BitOp "bitop" -4 [WRITE DENYOOM] (2 -1 1) "bitmap" "2.6.0" "AND | OR | XOR | NOT destination key [key ...]"
        "Stores the result of an operation on the bits of values."
        Change(bits::bitop);
    BitField "bitfield" -2 [WRITE DENYOOM] (1 1 1) "bitmap" "3.2.0"
        "key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY type offset increment ...]"
        "Reads and changes numbers of any number of bits."
        Change(bits::bitfield);
    BitFieldRo "bitfield_ro" -2 [READONLY FAST] (1 1 1) "bitmap" "6.0.0" "key [GET type offset ...]"
        "Reads numbers of any number of bits."
        Lookup(bits::bitfield_ro);

    PfAdd "pfadd" -2 [WRITE DENYOOM FAST] (1 1 1) "hyperloglog" "2.8.9" "key [element ...]"
        "Adds elements to a HyperLogLog."
        Change(hyperloglog::pfadd);
    PfCount "pfcount" -2 [READONLY] (1 -1 1) "hyperloglog" "2.8.9" "key [key ...]"
        "About how many elements were added, to any of the keys."
        Change(hyperloglog::pfcount);
    PfMerge "pfmerge" -2 [WRITE DENYOOM] (1 -1 1) "hyperloglog" "2.8.9" "destkey [sourcekey ...]"
        "Stores the union of HyperLogLogs."
        Change(hyperloglog::pfmerge);

    HSet "hset" -4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.0.0" "key field value [field value ...]"
        "Sets fields; returns how many are new."
        Collection(|pairs, call| hashes::hset(pairs, call, false));
    HSetNx "hsetnx" 4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.0.0" "key field value" "Sets a field that is absent."
        Collection(hashes::hsetnx);
    HMSet "hmset" -4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.0.0" "key field value [field value ...]"
        "Sets fields: the old form of HSET."
        Collection(|pairs, call| hashes::hset(pairs, call, true));
    HGet "hget" 3 [READONLY FAST] (1 1 1) "hash" "2.0.0" "key field" "The value of a field."
        Lookup(hashes::hget);
    HMGet "hmget" -3 [READONLY FAST] (1 1 1) "hash" "2.0.0" "key field [field ...]" "The values of fields."
        Lookup(hashes::hmget);
    HDel "hdel" -3 [WRITE FAST] (1 1 1) "hash" "2.0.0" "key field [field ...]" "Removes fields."
        Collection(hashes::hdel);
    HExists "hexists" 3 [READONLY FAST] (1 1 1) "hash" "2.0.0" "key field" "Whether a field is present."
        Lookup(hashes::hexists);
    HLen "hlen" 2 [READONLY FAST] (1 1 1) "hash" "2.0.0" "key" "The number of fields."
        Lookup(hashes::hlen);
    HStrLen "hstrlen" 3 [READONLY FAST] (1 1 1) "hash" "3.2.0" "key field" "The length of a field's value."
        Lookup(hashes::hstrlen);
    HKeys "hkeys" 2 [READONLY] (1 1 1) "hash" "2.0.0" "key" "All fields."
        Lookup(|turn, call| hashes::hgetall(turn, call, Parts::Names));
    HVals "hvals" 2 [READONLY] (1 1 1) "hash" "2.0.0" "key" "All values."
        Lookup(|turn, call| hashes::hgetall(turn, call, Parts::Values));
    HGetAll "hgetall" 2 [READONLY] (1 1 1) "hash" "2.0.0" "key" "All fields and values."
        Lookup(|turn, call| hashes::hgetall(turn, call, Parts::Both));
    HIncrBy "hincrby" 4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.0.0" "key field increment" "Adds to a number."
        Collection(hashes::hincrby);
    HIncrByFloat "hincrbyfloat" 4 [WRITE DENYOOM FAST] (1 1 1) "hash" "2.6.0" "key field increment"
        "Adds to a decimal number."
        Collection(hashes::hincrbyfloat);
    HScan "hscan" -3 [READONLY] (1 1 1) "hash" "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
        "Some fields and values, and where to go on."
        Lookup(|turn, call| hashes::scan(turn, call, Kind::Hash));
    HRandField "hrandfield" -2 [READONLY] (1 1 1) "hash" "6.2.0" "key [count [WITHVALUES]]" "Fields at random."
        Lookup(hashes::hrandfield);
    HExpire "hexpire" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "7.4.0"
        "key seconds [NX|XX|GT|LT] FIELDS number field ..." "Sets lifetimes of fields, in seconds."
        Change(|alone, call| field_lifetimes::expire(alone, call, lifetime::SECONDS, "hexpire"));
    HPExpire "hpexpire" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "7.4.0"
        "key milliseconds [NX|XX|GT|LT] FIELDS number field ..."
        "Sets lifetimes of fields, in milliseconds."
        Change(|alone, call| field_lifetimes::expire(alone, call, lifetime::MILLISECONDS, "hpexpire"));
    HExpireAt "hexpireat" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "7.4.0"
        "key unix-time [NX|XX|GT|LT] FIELDS number field ..."
        "Sets when fields expire, in seconds."
        Change(|alone, call| field_lifetimes::expire(alone, call, lifetime::UNIX_SECONDS, "hexpireat"));
    HPExpireAt "hpexpireat" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "7.4.0"
        "key unix-time-ms [NX|XX|GT|LT] FIELDS number field ..."
        "Sets when fields expire, in milliseconds."
        Change(|alone, call| field_lifetimes::expire(alone, call, lifetime::UNIX_MILLISECONDS, "hpexpireat"));
    HTtl "httl" -5 [READONLY FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "Seconds until fields expire."
        Lookup(|turn, call| field_lifetimes::ttl(turn, call, lifetime::SECONDS));
    HPTtl "hpttl" -5 [READONLY FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "Milliseconds until fields expire."
        Lookup(|turn, call| field_lifetimes::ttl(turn, call, lifetime::MILLISECONDS));
    HExpireTime "hexpiretime" -5 [READONLY FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "When fields expire, in seconds."
        Lookup(|turn, call| field_lifetimes::ttl(turn, call, lifetime::UNIX_SECONDS));
    HPExpireTime "hpexpiretime" -5 [READONLY FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "When fields expire, in milliseconds."
        Lookup(|turn, call| field_lifetimes::ttl(turn, call, lifetime::UNIX_MILLISECONDS));
    HPersist "hpersist" -5 [WRITE FAST] (1 1 1) "hash" "7.4.0" "key FIELDS number field ..."
        "Removes lifetimes of fields."
        Change(field_lifetimes::persist);
    HGetDel "hgetdel" -5 [WRITE FAST] (1 1 1) "hash" "8.0.0" "key FIELDS number field ..."
        "The values of fields, which are removed."
        Change(field_lifetimes::hgetdel);
    HGetEx "hgetex" -5 [WRITE FAST] (1 1 1) "hash" "8.0.0"
        "key [EX seconds|PX milliseconds|EXAT unix-time|PXAT unix-time-ms|PERSIST] \
         FIELDS number field ..."
        "The values of fields, whose lifetimes are set or removed."
        Change(field_lifetimes::hgetex);
    HSetEx "hsetex" -6 [WRITE DENYOOM FAST] (1 1 1) "hash" "8.0.0"
        "key [FNX|FXX] [EX seconds|PX milliseconds|EXAT unix-time|PXAT unix-time-ms|KEEPTTL] \
         FIELDS number field value ..."
        "Sets fields and their lifetimes."
        Change(field_lifetimes::hsetex);

    SAdd "sadd" -3 [WRITE DENYOOM FAST] (1 1 1) "set" "1.0.0" "key member [member ...]"
        "Adds members; returns how many are new."
        Collection(sets::sadd);
    SRem "srem" -3 [WRITE FAST] (1 1 1) "set" "1.0.0" "key member [member ...]" "Removes members."
        Collection(sets::srem);
    SIsMember "sismember" 3 [READONLY FAST] (1 1 1) "set" "1.0.0" "key member" "Whether a member is present."
        Lookup(|turn, call| sets::sismember(turn, call, false));
    SMIsMember "smismember" -3 [READONLY FAST] (1 1 1) "set" "6.2.0" "key member [member ...]"
        "Which members are present."
        Lookup(|turn, call| sets::sismember(turn, call, true));
    SMembers "smembers" 2 [READONLY] (1 1 1) "set" "1.0.0" "key" "All members."
        Lookup(sets::smembers);
    SCard "scard" 2 [READONLY FAST] (1 1 1) "set" "1.0.0" "key" "The number of members."
        Lookup(sets::scard);
    SPop "spop" -2 [WRITE FAST] (1 1 1) "set" "1.0.0" "key [count]" "Removes members at random and returns them."
        Collection(sets::spop);
    SRandMember "srandmember" -2 [READONLY] (1 1 1) "set" "1.0.0" "key [count]" "Members at random."
        Lookup(sets::srandmember);
    SMove "smove" 4 [WRITE FAST] (1 2 1) "set" "1.0.0" "source destination member" "Moves a member to another set."
        Change(sets::smove);
    SScan "sscan" -3 [READONLY] (1 1 1) "set" "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
        "Some members, and where to go on."
        Lookup(|turn, call| hashes::scan(turn, call, Kind::Set));
    SInter "sinter" -2 [READONLY] (1 -1 1) "set" "1.0.0" "key [key ...]" "The members that all sets have."
        LookupMany(|turn, call| sets::operate(turn, call, Operation::Inter));
    SInterCard "sintercard" -3 [READONLY] (2 0 1) "set" "7.0.0" "numkeys key [key ...] [LIMIT limit]"
        "How many members all sets have."
        LookupMany(sets::sintercard);
    SInterStore "sinterstore" -3 [WRITE DENYOOM] (1 -1 1) "set" "1.0.0" "destination key [key ...]"
        "Stores the members that all sets have."
        Change(|alone, call| sets::store(alone, call, Operation::Inter));
    SUnion "sunion" -2 [READONLY] (1 -1 1) "set" "1.0.0" "key [key ...]" "The members that any of the sets has."
        LookupMany(|turn, call| sets::operate(turn, call, Operation::Union));
    SUnionStore "sunionstore" -3 [WRITE DENYOOM] (1 -1 1) "set" "1.0.0" "destination key [key ...]"
        "Stores the members that any of the sets has."
        Change(|alone, call| sets::store(alone, call, Operation::Union));
    SDiff "sdiff" -2 [READONLY] (1 -1 1) "set" "1.0.0" "key [key ...]" "The members that only the first set has."
        LookupMany(|turn, call| sets::operate(turn, call, Operation::Diff));
    SDiffStore "sdiffstore" -3 [WRITE DENYOOM] (1 -1 1) "set" "1.0.0" "destination key [key ...]"
        "Stores the members that only the first set has."
        Change(|alone, call| sets::store(alone, call, Operation::Diff));

    LPush "lpush" -3 [WRITE DENYOOM FAST] (1 1 1) "list" "1.0.0" "key element [element ...]"
        "Adds elements at the beginning."
        Collection(|pairs, call| lists::push(pairs, call, End::Left, false));
    RPush "rpush" -3 [WRITE DENYOOM FAST] (1 1 1) "list" "1.0.0" "key element [element ...]"
        "Adds elements at the end."
        Collection(|pairs, call| lists::push(pairs, call, End::Right, false));
    LPushX "lpushx" -3 [WRITE DENYOOM FAST] (1 1 1) "list" "2.2.0" "key element [element ...]"
        "Adds elements at the beginning of a list that is present."
        Collection(|pairs, call| lists::push(pairs, call, End::Left, true));
    RPushX "rpushx" -3 [WRITE DENYOOM FAST] (1 1 1) "list" "2.2.0" "key element [element ...]"
        "Adds elements at the end of a list that is present."
        Collection(|pairs, call| lists::push(pairs, call, End::Right, true));
    LPop "lpop" -2 [WRITE FAST] (1 1 1) "list" "1.0.0" "key [count]" "Removes the first elements and returns them."
        Collection(|pairs, call| lists::pop(pairs, call, End::Left));
    RPop "rpop" -2 [WRITE FAST] (1 1 1) "list" "1.0.0" "key [count]" "Removes the last elements and returns them."
        Collection(|pairs, call| lists::pop(pairs, call, End::Right));
    LLen "llen" 2 [READONLY FAST] (1 1 1) "list" "1.0.0" "key" "The number of elements."
        Lookup(lists::llen);
    LRange "lrange" 4 [READONLY] (1 1 1) "list" "1.0.0" "key start stop" "A part of a list."
        Lookup(lists::lrange);
    LIndex "lindex" 3 [READONLY] (1 1 1) "list" "1.0.0" "key index" "An element of a list."
        Lookup(lists::lindex);
    LSet "lset" 4 [WRITE DENYOOM] (1 1 1) "list" "1.0.0" "key index element" "Replaces an element."
        Collection(lists::lset);
    LRem "lrem" 4 [WRITE] (1 1 1) "list" "1.0.0" "key count element" "Removes elements that are equal to one."
        Change(lists::lrem);
    LTrim "ltrim" 4 [WRITE] (1 1 1) "list" "1.0.0" "key start stop" "Removes all but a part of a list."
        Collection(lists::ltrim);
    LInsert "linsert" 5 [WRITE DENYOOM] (1 1 1) "list" "2.2.0" "key BEFORE | AFTER pivot element"
        "Adds an element beside another."
        Change(lists::linsert);
    LPos "lpos" -3 [READONLY] (1 1 1) "list" "6.0.6" "key element [RANK rank] [COUNT matches] [MAXLEN len]"
        "Where an element is."
        Lookup(lists::lpos);
    LMove "lmove" 5 [WRITE DENYOOM] (1 2 1) "list" "6.2.0" "source destination LEFT | RIGHT LEFT | RIGHT"
        "Moves an element to another list."
        Change(lists::lmove);
    RPopLPush "rpoplpush" 3 [WRITE DENYOOM] (1 2 1) "list" "1.2.0" "source destination"
        "Moves the last element to the beginning of another list."
        Change(lists::lmove);
    LMPop "lmpop" -4 [WRITE] (2 0 1) "list" "7.0.0" "numkeys key [key ...] LEFT | RIGHT [COUNT count]"
        "Removes elements of the first list that has some."
        Change(lists::lmpop);
    BLPop "blpop" -3 [WRITE NOSCRIPT BLOCKING] (1 -2 1) "list" "2.0.0" "key [key ...] timeout"
        "Removes the first element of the first list that has one, or waits for one."
        Transaction(|session, alone, args, out| blocking::bpop(session, alone, args, out, Wanted::One(End::Left)));
    BRPop "brpop" -3 [WRITE NOSCRIPT BLOCKING] (1 -2 1) "list" "2.0.0" "key [key ...] timeout"
        "Removes the last element of the first list that has one, or waits for one."
        Transaction(|session, alone, args, out| blocking::bpop(session, alone, args, out, Wanted::One(End::Right)));
    BLMove "blmove" 6 [WRITE DENYOOM NOSCRIPT BLOCKING] (1 2 1) "list" "6.2.0"
        "source destination LEFT | RIGHT LEFT | RIGHT timeout" "Moves an element to another list, or waits for one."
        Transaction(blocking::blmove);
    BRPopLPush "brpoplpush" 4 [WRITE DENYOOM NOSCRIPT BLOCKING] (1 2 1) "list" "2.2.0" "source destination timeout"
        "Moves the last element to the beginning of another list, or waits for one."
        Transaction(blocking::brpoplpush);
    BLMPop "blmpop" -5 [WRITE BLOCKING] (3 0 1) "list" "7.0.0"
        "timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]"
        "Removes elements of the first list that has some, or waits for some."
        Transaction(blocking::blmpop);

    ZAdd "zadd" -4 [WRITE DENYOOM FAST] (1 1 1) "sorted-set" "1.2.0"
        "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]"
        "Sets the scores of members; returns how many are new."
        Collection(|pairs, call| sorted_sets::zadd(pairs, call, false));
    ZIncrBy "zincrby" 4 [WRITE DENYOOM FAST] (1 1 1) "sorted-set" "1.2.0" "key increment member" "Adds to a score."
        Collection(|pairs, call| sorted_sets::zadd(pairs, call, true));
    ZRem "zrem" -3 [WRITE FAST] (1 1 1) "sorted-set" "1.2.0" "key member [member ...]" "Removes members."
        Collection(sorted_sets::zrem);
    ZCard "zcard" 2 [READONLY FAST] (1 1 1) "sorted-set" "1.2.0" "key" "The number of members."
        Lookup(sorted_sets::zcard);
    ZScore "zscore" 3 [READONLY FAST] (1 1 1) "sorted-set" "1.2.0" "key member" "The score of a member."
        Lookup(|turn, call| sorted_sets::zscore(turn, call, false));
    ZMScore "zmscore" -3 [READONLY FAST] (1 1 1) "sorted-set" "6.2.0" "key member [member ...]" "The scores of members."
        Lookup(|turn, call| sorted_sets::zscore(turn, call, true));
    ZRank "zrank" -3 [READONLY FAST] (1 1 1) "sorted-set" "2.0.0" "key member [WITHSCORE]"
        "How many elements are before a member."
        Lookup(|turn, call| sorted_sets::zrank(turn, call, false));
    ZRevRank "zrevrank" -3 [READONLY FAST] (1 1 1) "sorted-set" "2.0.0" "key member [WITHSCORE]"
        "How many elements are after a member."
        Lookup(|turn, call| sorted_sets::zrank(turn, call, true));
    ZCount "zcount" 4 [READONLY FAST] (1 1 1) "sorted-set" "2.0.0" "key min max" "How many scores are in a range."
        Lookup(|turn, call| sorted_sets::zcount(turn, call, By::Score));
    ZLexCount "zlexcount" 4 [READONLY FAST] (1 1 1) "sorted-set" "2.8.9" "key min max"
        "How many members are in a range, if all scores are equal."
        Lookup(|turn, call| sorted_sets::zcount(turn, call, By::Lex));
    ZRange "zrange" -4 [READONLY] (1 1 1) "sorted-set" "1.2.0"
        "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]"
        "The elements in a range of ranks, scores or members."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, None, None));
    ZRevRange "zrevrange" -4 [READONLY] (1 1 1) "sorted-set" "1.2.0" "key start stop [WITHSCORES]"
        "ZRANGE with REV."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Rank), Some(true)));
    ZRangeByScore "zrangebyscore" -4 [READONLY] (1 1 1) "sorted-set" "1.0.5"
        "key min max [WITHSCORES] [LIMIT offset count]" "ZRANGE with BYSCORE."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Score), Some(false)));
    ZRevRangeByScore "zrevrangebyscore" -4 [READONLY] (1 1 1) "sorted-set" "2.2.0"
        "key max min [WITHSCORES] [LIMIT offset count]" "ZRANGE with BYSCORE and REV."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Score), Some(true)));
    ZRangeByLex "zrangebylex" -4 [READONLY] (1 1 1) "sorted-set" "2.8.9" "key min max [LIMIT offset count]"
        "ZRANGE with BYLEX."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Lex), Some(false)));
    ZRevRangeByLex "zrevrangebylex" -4 [READONLY] (1 1 1) "sorted-set" "2.8.9" "key max min [LIMIT offset count]"
        "ZRANGE with BYLEX and REV."
        Lookup(|turn, call| sorted_sets::zrange(turn, call, Some(By::Lex), Some(true)));
    ZRangeStore "zrangestore" -5 [WRITE DENYOOM] (1 2 1) "sorted-set" "6.2.0"
        "destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]"
        "Stores what ZRANGE returns."
        Change(sorted_sets::zrangestore);
    ZRemRangeByRank "zremrangebyrank" 4 [WRITE] (1 1 1) "sorted-set" "2.0.0" "key start stop"
        "Removes the elements in a range of ranks."
        Collection(|pairs, call| sorted_sets::zremrange(pairs, call, By::Rank));
    ZRemRangeByScore "zremrangebyscore" 4 [WRITE] (1 1 1) "sorted-set" "1.2.0" "key min max"
        "Removes the elements in a range of scores."
        Collection(|pairs, call| sorted_sets::zremrange(pairs, call, By::Score));
    ZRemRangeByLex "zremrangebylex" 4 [WRITE] (1 1 1) "sorted-set" "2.8.9" "key min max"
        "Removes the elements in a range of members."
        Collection(|pairs, call| sorted_sets::zremrange(pairs, call, By::Lex));
    ZPopMin "zpopmin" -2 [WRITE FAST] (1 1 1) "sorted-set" "5.0.0" "key [count]"
        "Removes the elements with the least scores and returns them."
        Collection(|pairs, call| sorted_sets::zpop(pairs, call, Extreme::Min));
    ZPopMax "zpopmax" -2 [WRITE FAST] (1 1 1) "sorted-set" "5.0.0" "key [count]"
        "Removes the elements with the greatest scores and returns them."
        Collection(|pairs, call| sorted_sets::zpop(pairs, call, Extreme::Max));
    ZMPop "zmpop" -4 [WRITE] (2 0 1) "sorted-set" "7.0.0" "numkeys key [key ...] MIN | MAX [COUNT count]"
        "Removes elements of the first sorted set that has some."
        Change(sorted_sets::zmpop);
    BZPopMin "bzpopmin" -3 [WRITE NOSCRIPT BLOCKING FAST] (1 -2 1) "sorted-set" "5.0.0" "key [key ...] timeout"
        "Removes the element with the least score of the first sorted set that has one, or waits for one."
        Transaction(|session, alone, args, out| {
            blocking::bpop(session, alone, args, out, Wanted::OneScored(Extreme::Min))
        });
    BZPopMax "bzpopmax" -3 [WRITE NOSCRIPT BLOCKING FAST] (1 -2 1) "sorted-set" "5.0.0" "key [key ...] timeout"
        "Removes the element with the greatest score of the first sorted set that has one, or waits for one."
        Transaction(|session, alone, args, out| {
            blocking::bpop(session, alone, args, out, Wanted::OneScored(Extreme::Max))
        });
    BZMPop "bzmpop" -5 [WRITE BLOCKING] (3 0 1) "sorted-set" "7.0.0"
        "timeout numkeys key [key ...] MIN | MAX [COUNT count]"
        "Removes elements of the first sorted set that has some, or waits for some."
        Transaction(blocking::bzmpop);
    ZRandMember "zrandmember" -2 [READONLY] (1 1 1) "sorted-set" "6.2.0" "key [count [WITHSCORES]]" "Members at random."
        Lookup(sorted_sets::zrandmember);
    ZScan "zscan" -3 [READONLY] (1 1 1) "sorted-set" "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
        "Some members and scores, and where to go on."
        Lookup(|turn, call| hashes::scan(turn, call, Kind::SortedSet));
    ZUnion "zunion" -3 [READONLY] (2 0 1) "sorted-set" "6.2.0"
        "numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]"
        "The members that any of the sets has, with combined scores."
        LookupMany(|turn, call| sorted_operations::operate(turn, call, Operation::Union));
    ZUnionStore "zunionstore" -4 [WRITE DENYOOM] (1 1 1) "sorted-set" "2.0.0"
        "destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]"
        "Stores the members that any of the sets has, with combined scores."
        Change(|alone, call| sorted_operations::operate_and_store(alone, call, Operation::Union));
    ZInter "zinter" -3 [READONLY] (2 0 1) "sorted-set" "6.2.0"
        "numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]"
        "The members that all sets have, with combined scores."
        LookupMany(|turn, call| sorted_operations::operate(turn, call, Operation::Inter));
    ZInterCard "zintercard" -3 [READONLY] (2 0 1) "sorted-set" "7.0.0" "numkeys key [key ...] [LIMIT limit]"
        "How many members all sets have."
        LookupMany(sorted_operations::zintercard);
    ZInterStore "zinterstore" -4 [WRITE DENYOOM] (1 1 1) "sorted-set" "2.0.0"
        "destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]"
        "Stores the members that all sets have, with combined scores."
        Change(|alone, call| sorted_operations::operate_and_store(alone, call, Operation::Inter));
    ZDiff "zdiff" -3 [READONLY] (2 0 1) "sorted-set" "6.2.0" "numkeys key [key ...] [WITHSCORES]"
        "The members that only the first set has."
        LookupMany(|turn, call| sorted_operations::operate(turn, call, Operation::Diff));
    ZDiffStore "zdiffstore" -4 [WRITE DENYOOM] (1 1 1) "sorted-set" "6.2.0" "destination numkeys key [key ...]"
        "Stores the members that only the first set has."
        Change(|alone, call| sorted_operations::operate_and_store(alone, call, Operation::Diff));

    GeoAdd "geoadd" -5 [WRITE DENYOOM] (1 1 1) "geo" "3.2.0"
        "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]"
        "Adds members with their positions to a sorted set."
        Change(geo::geoadd);
    GeoHash "geohash" -2 [READONLY] (1 1 1) "geo" "3.2.0" "key [member [member ...]]" "The geohashes of members."
        Lookup(geo::geohash);
    GeoPos "geopos" -2 [READONLY] (1 1 1) "geo" "3.2.0" "key [member [member ...]]"
        "The longitudes and latitudes of members."
        Lookup(geo::geopos);
    GeoDist "geodist" -4 [READONLY] (1 1 1) "geo" "3.2.0" "key member1 member2 [M | KM | FT | MI]"
        "The distance between two members."
        Lookup(geo::geodist);
    GeoSearch "geosearch" -7 [READONLY] (1 1 1) "geo" "6.2.0"
        "key FROMMEMBER member | FROMLONLAT longitude latitude BYRADIUS radius unit | BYBOX width height unit \
         [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]"
        "Members within a circle or a box."
        Lookup(|turn, call| geo::search(turn, call, Form::Search));
    GeoSearchStore "geosearchstore" -8 [WRITE DENYOOM] (1 2 1) "geo" "6.2.0"
        "destination source FROMMEMBER member | FROMLONLAT longitude latitude \
         BYRADIUS radius unit | BYBOX width height unit [ASC | DESC] [COUNT count [ANY]] [STOREDIST]"
        "Stores members within a circle or a box."
        Change(|alone, call| geo::search_and_store(alone, call, Form::SearchStore));
    GeoRadius "georadius" -6 [WRITE DENYOOM] (1 1 1) "geo" "3.2.0"
        "key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] \
         [STORE key | STOREDIST key]"
        "Members within a circle: the old form of GEOSEARCH."
        Change(|alone, call| geo::search_and_store(alone, call, Form::Radius(true)));
    GeoRadiusRo "georadius_ro" -6 [READONLY] (1 1 1) "geo" "3.2.10"
        "key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]"
        "GEORADIUS without storing."
        Lookup(|turn, call| geo::search(turn, call, Form::Radius(false)));
    GeoRadiusByMember "georadiusbymember" -5 [WRITE DENYOOM] (1 1 1) "geo" "3.2.0"
        "key member radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] \
         [STORE key | STOREDIST key]"
        "Members within a circle around a member: the old form of GEOSEARCH."
        Change(|alone, call| geo::search_and_store(alone, call, Form::RadiusByMember(true)));
    GeoRadiusByMemberRo "georadiusbymember_ro" -5 [READONLY] (1 1 1) "geo" "3.2.10"
        "key member radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]"
        "GEORADIUSBYMEMBER without storing."
        Lookup(|turn, call| geo::search(turn, call, Form::RadiusByMember(false)));

    XAdd "xadd" -5 [WRITE DENYOOM FAST] (1 1 1) "stream" "5.0.0"
        "key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value [field value ...]"
        "Adds an entry; returns its ID."
        Collection(streams::xadd);
    XLen "xlen" 2 [READONLY FAST] (1 1 1) "stream" "5.0.0" "key" "The number of entries."
        Lookup(streams::xlen);
    XRange "xrange" -4 [READONLY] (1 1 1) "stream" "5.0.0" "key start end [COUNT count]"
        "The entries in a range of IDs."
        Lookup(|turn, call| streams::xrange(turn, call, false));
    XRevRange "xrevrange" -4 [READONLY] (1 1 1) "stream" "5.0.0" "key end start [COUNT count]"
        "The entries in a range of IDs, the last one first."
        Lookup(|turn, call| streams::xrange(turn, call, true));
    XDel "xdel" -3 [WRITE FAST] (1 1 1) "stream" "5.0.0" "key id [id ...]" "Removes entries."
        Collection(streams::xdel);
    XTrim "xtrim" -4 [WRITE] (1 1 1) "stream" "5.0.0" "key MAXLEN | MINID [= | ~] threshold [LIMIT count]"
        "Removes the first entries."
        Change(streams::xtrim);
    XRead "xread" -4 [READONLY BLOCKING] (4 0 1) "stream" "5.0.0"
        "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]" "Entries after an ID, or waits for some."
        Transaction(|session, alone, args, out| blocking::xread(session, alone, args, out, false));
    XReadGroup "xreadgroup" -7 [WRITE BLOCKING] (7 0 1) "stream" "5.0.0"
        "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]"
        "Entries that no consumer of a group has read, or one's own pending ones."
        Transaction(|session, alone, args, out| blocking::xread(session, alone, args, out, true));
    XGroup "xgroup" -2 [WRITE DENYOOM] (2 2 1) "stream" "5.0.0"
        "CREATE | SETID | DESTROY | CREATECONSUMER | DELCONSUMER | HELP [...]" "Makes and removes consumer groups."
        Change(stream_groups::xgroup);
    XAck "xack" -4 [WRITE FAST] (1 1 1) "stream" "5.0.0" "key group id [id ...]"
        "Acknowledges entries, which are no longer pending."
        Collection(stream_groups::xack);
    XPending "xpending" -3 [READONLY] (1 1 1) "stream" "5.0.0"
        "key group [[IDLE min-idle-time] start end count [consumer]]"
        "The entries that were read and not acknowledged."
        Lookup(stream_groups::xpending);
    XClaim "xclaim" -6 [WRITE FAST] (1 1 1) "stream" "5.0.0"
        "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-ms] [RETRYCOUNT count] [FORCE] \
         [JUSTID] [LASTID id]"
        "Gives pending entries to a consumer."
        Change(stream_groups::xclaim);
    XAutoClaim "xautoclaim" -6 [WRITE FAST] (1 1 1) "stream" "6.2.0"
        "key group consumer min-idle-time start [COUNT count] [JUSTID]"
        "Gives the next pending entries that were idle for long to a consumer."
        Change(stream_groups::xautoclaim);
    XInfo "xinfo" -2 [READONLY] (2 2 1) "stream" "5.0.0" "STREAM | GROUPS | CONSUMERS | HELP [...]"
        "What a stream, its groups and their consumers are."
        Lookup(stream_info::xinfo);
    XSetid "xsetid" -3 [WRITE DENYOOM FAST] (1 1 1) "stream" "5.0.0"
        "key last-id [ENTRIESADDED count] [MAXDELETEDID id]"
        "Sets the last ID of a stream."
        Change(streams::xsetid);

    Del "del" -2 [WRITE RUN] (1 -1 1) "generic" "1.0.0" "key [key ...]" "Removes keys."
        Change(keys::del);
    Unlink "unlink" -2 [WRITE FAST RUN] (1 -1 1) "generic" "4.0.0" "key [key ...]" "Removes keys; the same as DEL here."
        Change(keys::del);
    Exists "exists" -2 [READONLY FAST RUN_OF_KEYS] (1 -1 1) "generic" "1.0.0" "key [key ...]"
        "How many of the keys are present."
        Lookup(keys::exists);
    Type "type" 2 [READONLY FAST] (1 1 1) "generic" "1.0.0" "key" "The type of a value, or none."
        Lookup(keys::type_of);
    Touch "touch" -2 [READONLY FAST RUN_OF_KEYS] (1 -1 1) "generic" "3.2.1" "key [key ...]"
        "How many of the keys are present; they count as used."
        Lookup(keys::exists);
    Copy "copy" -3 [WRITE DENYOOM] (1 2 1) "generic" "6.2.0" "source destination [DB database] [REPLACE]"
        "Copies a value and its lifetime to another key."
        Change(keys::copy);
    Move "move" 3 [WRITE FAST] (1 1 1) "generic" "1.0.0" "key database"
        "Moves a key to another database that has no such key."
        Change(keys::move_to);
    Rename "rename" 3 [WRITE] (1 2 1) "generic" "1.0.0" "key newkey" "Gives a key another name."
        Change(|alone, call| keys::rename(alone, call, false));
    RenameNx "renamenx" 3 [WRITE FAST] (1 2 1) "generic" "1.0.0" "key newkey"
        "Gives a key another name if no key has it."
        Change(|alone, call| keys::rename(alone, call, true));
    RandomKey "randomkey" 1 [READONLY] (0 0 0) "generic" "1.0.0" "" "A key at random."
        Scan(|space, call, _| keys::random_key(space, call));
    Keys "keys" 2 [READONLY WAITS] (0 0 0) "generic" "1.0.0" "pattern" "All keys that match a pattern."
        Scan(keys::keys);
    Scan "scan" -2 [READONLY] (0 0 0) "generic" "2.8.0" "cursor [MATCH pattern] [COUNT count] [TYPE type]"
        "Some keys, and where to go on."
        Scan(|space, call, _| keys::scan(space, call));
    Dump "dump" 2 [READONLY] (1 1 1) "generic" "2.6.0" "key" "A value in the form that RESTORE takes."
        Lookup(dump::dump);
    Restore "restore" -4 [WRITE DENYOOM] (1 1 1) "generic" "2.6.0"
        "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]" "Stores what DUMP returned."
        Change(dump::restore);
    Migrate "migrate" -6 [WRITE NOSCRIPT WAITS] (3 3 1) "generic" "2.6.0"
        "host port key | \"\" database timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] \
         [KEYS key [key ...]]" "Moves keys to another server."
        Session(migrate::migrate);
    Object "object" -2 [READONLY] (2 2 1) "generic" "2.2.3" "ENCODING | REFCOUNT | IDLETIME | FREQ | HELP [key]"
        "How Redis would store a value."
        Lookup(keys::object);
    Wait "wait" 3 [] (0 0 0) "generic" "3.0.0" "numreplicas timeout" "Waits for replicas, of which there are none."
        Session(introspect::wait);
    Expire "expire" -3 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "1.0.0" "key seconds [NX | XX | GT | LT]"
        "Sets a lifetime in seconds."
        Edit(|call, now_ms| lifetime::expire(call, now_ms, lifetime::SECONDS, "expire"));
    PExpire "pexpire" -3 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "2.6.0" "key milliseconds [NX | XX | GT | LT]"
        "Sets a lifetime in milliseconds."
        Edit(|call, now_ms| lifetime::expire(call, now_ms, lifetime::MILLISECONDS, "pexpire"));
    ExpireAt "expireat" -3 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "1.2.0" "key unix-time [NX | XX | GT | LT]"
        "Sets when a key expires, in seconds."
        Edit(|call, now_ms| lifetime::expire(call, now_ms, lifetime::UNIX_SECONDS, "expireat"));
    PExpireAt "pexpireat" -3 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "2.6.0" "key unix-time-ms [NX | XX | GT | LT]"
        "Sets when a key expires, in milliseconds."
        Edit(|call, now_ms| lifetime::expire(call, now_ms, lifetime::UNIX_MILLISECONDS, "pexpireat"));
    Ttl "ttl" 2 [READONLY FAST] (1 1 1) "generic" "1.0.0" "key" "Seconds until a key expires."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::SECONDS));
    PTtl "pttl" 2 [READONLY FAST] (1 1 1) "generic" "2.6.0" "key" "Milliseconds until a key expires."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::MILLISECONDS));
    ExpireTime "expiretime" 2 [READONLY FAST] (1 1 1) "generic" "7.0.0" "key" "When a key expires, in seconds."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::UNIX_SECONDS));
    PExpireTime "pexpiretime" 2 [READONLY FAST] (1 1 1) "generic" "7.0.0" "key" "When a key expires, in milliseconds."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::UNIX_MILLISECONDS));
    Persist "persist" 2 [WRITE FAST RUN_OF_EDITS] (1 1 1) "generic" "2.2.0" "key" "Removes a lifetime."
        Edit(|_, _| Ok(Plan::Persist));
    Sort "sort" -2 [WRITE DENYOOM] (1 1 1) "generic" "1.0.0"
        "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]"
        "The elements of a list, set or sorted set in order, or what belongs to them."
        Change(sort::sort_and_store);
    SortRo "sort_ro" -2 [READONLY] (1 1 1) "generic" "7.0.0"
        "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]"
        "SORT without storing."
        LookupMany(sort::sort_ro);

    Multi "multi" 1 [NOSCRIPT LOADING STALE FAST NOW] (0 0 0) "transactions" "1.2.0" "" "Begins a transaction."
        Session(connection::multi);
    Exec "exec" 1 [NOSCRIPT LOADING STALE NOW] (0 0 0) "transactions" "1.2.0" "" "Executes a transaction as one change."
        Transaction(exec);
    Discard "discard" 1 [NOSCRIPT LOADING STALE FAST NOW] (0 0 0) "transactions" "2.0.0" "" "Forgets a transaction."
        Session(connection::discard);
    Watch "watch" -2 [NOSCRIPT LOADING STALE FAST NOW] (1 -1 1) "transactions" "2.2.0" "key [key ...]"
        "Makes the next transaction fail if one of the keys changes first."
        Transaction(connection::watch);
    Unwatch "unwatch" 1 [NOSCRIPT LOADING STALE FAST] (0 0 0) "transactions" "2.2.0" "" "Forgets what is watched."
        Transaction(connection::unwatch);

    Eval "eval" -3 [NOSCRIPT STALE WAITS] (3 0 1) "scripting" "2.6.0"
        "script numkeys [key [key ...]] [arg [arg ...]]" "Runs a Lua script."
        Transaction(|session, alone, args, out| {
            script::eval(session, alone, args, out, [false, false], execute_within)
        });
    EvalSha "evalsha" -3 [NOSCRIPT STALE WAITS] (3 0 1) "scripting" "2.6.0"
        "sha1 numkeys [key [key ...]] [arg [arg ...]]" "Runs a known Lua script."
        Transaction(|session, alone, args, out| {
            script::eval(session, alone, args, out, [true, false], execute_within)
        });
    EvalRo "eval_ro" -3 [NOSCRIPT STALE WAITS] (3 0 1) "scripting" "7.0.0"
        "script numkeys [key [key ...]] [arg [arg ...]]" "Runs a Lua script that may not write."
        Transaction(|session, alone, args, out| {
            script::eval(session, alone, args, out, [false, true], execute_within)
        });
    EvalShaRo "evalsha_ro" -3 [NOSCRIPT STALE WAITS] (3 0 1) "scripting" "7.0.0"
        "sha1 numkeys [key [key ...]] [arg [arg ...]]" "Runs a known Lua script that may not write."
        Transaction(|session, alone, args, out| {
            script::eval(session, alone, args, out, [true, true], execute_within)
        });
    Script "script" -2 [NOSCRIPT] (0 0 0) "scripting" "2.6.0" "LOAD | EXISTS | FLUSH | KILL | HELP [...]"
        "Adds scripts, asks about them, ends the running one."
        Session(script::script);
    Function "function" -2 [NOSCRIPT] (0 0 0) "scripting" "7.0.0"
        "LIST | STATS | FLUSH | DUMP | RESTORE | DELETE | KILL | HELP [...]"
        "As with no library loaded; none can be loaded."
        Session(extensions::function);
    FCall "fcall" -3 [NOSCRIPT STALE] (3 0 1) "scripting" "7.0.0" "function numkeys [key [key ...]] [arg [arg ...]]"
        "Returns an error: there are no functions."
        Session(extensions::call);
    FCallRo "fcall_ro" -3 [NOSCRIPT STALE READONLY] (3 0 1) "scripting" "7.0.0"
        "function numkeys [key [key ...]] [arg [arg ...]]" "Returns an error: there are no functions."
        Session(extensions::call);

    Auth "auth" -2 [NOSCRIPT LOADING STALE FAST NO_AUTH] (0 0 0) "connection" "1.0.0" "[username] password"
        "Authenticates the connection."
        Session(connection::auth);
    Hello "hello" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH] (0 0 0) "connection" "6.0.0"
        "[protover [AUTH username password] [SETNAME clientname]]" "Chooses RESP2 or RESP3."
        Session(connection::hello);
    Ping "ping" -1 [FAST SUBSCRIBED] (0 0 0) "connection" "1.0.0" "[message]" "Answers PONG, or the message."
        Session(connection::ping);
    Echo "echo" 2 [FAST] (0 0 0) "connection" "1.0.0" "message" "Answers the message."
        Session(connection::echo);
    Select "select" 2 [LOADING STALE FAST] (0 0 0) "connection" "1.0.0" "index" "Chooses a database."
        Session(connection::select);
    Quit "quit" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH SUBSCRIBED NOW] (0 0 0) "connection" "1.0.0" ""
        "Closes the connection."
        Session(connection::quit);
    Reset "reset" 1 [NOSCRIPT LOADING STALE FAST NO_AUTH SUBSCRIBED NOW] (0 0 0) "connection" "6.2.0" ""
        "Makes the connection as it was in the beginning."
        Session(connection::reset);
    Client "client" -2 [NOSCRIPT LOADING STALE] (0 0 0) "connection" "2.4.0"
        "ID | SETNAME | GETNAME | SETINFO | INFO | LIST | KILL | REPLY | NO-EVICT | NO-TOUCH | PAUSE | UNPAUSE | \
         UNBLOCK [...]"
        "Asks about connections, names and ends them."
        Session(client::client);

    Subscribe "subscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "channel [channel ...]" "Receives what is published on channels."
        Session(|session, args, out| pubsub::subscribe(session, args, out, Subscription::Channel));
    Unsubscribe "unsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "[channel ...]" "Ends subscriptions."
        Session(|session, args, out| pubsub::unsubscribe(session, args, out, Subscription::Channel));
    PSubscribe "psubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "pattern [pattern ...]" "Receives what is published on channels that match."
        Session(|session, args, out| pubsub::subscribe(session, args, out, Subscription::Pattern));
    PUnsubscribe "punsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "[pattern ...]" "Ends subscriptions to patterns."
        Session(|session, args, out| pubsub::unsubscribe(session, args, out, Subscription::Pattern));
    Publish "publish" 3 [PUBSUB LOADING STALE FAST] (0 0 0) "pubsub" "2.0.0" "channel message"
        "Sends a message to those who subscribed."
        Session(pubsub::publish);
    SSubscribe "ssubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (1 -1 1) "pubsub" "7.0.0"
        "shardchannel [shardchannel ...]" "Receives what is published on shard channels."
        Session(|session, args, out| pubsub::subscribe(session, args, out, Subscription::ShardChannel));
    SUnsubscribe "sunsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (1 -1 1) "pubsub" "7.0.0"
        "[shardchannel ...]" "Ends subscriptions to shard channels."
        Session(|session, args, out| pubsub::unsubscribe(session, args, out, Subscription::ShardChannel));
    SPublish "spublish" 3 [PUBSUB LOADING STALE FAST] (1 1 1) "pubsub" "7.0.0" "shardchannel message"
        "Sends a message to those who subscribed to the shard channel."
        Session(pubsub::publish_in_shard);
    PubSub "pubsub" -2 [PUBSUB LOADING STALE] (0 0 0) "pubsub" "2.8.0"
        "CHANNELS | NUMSUB | NUMPAT | SHARDCHANNELS | SHARDNUMSUB | HELP [...]"
        "Asks about subscriptions."
        Session(pubsub::ask);

    Cluster "cluster" -2 [LOADING STALE] (0 0 0) "cluster" "3.0.0"
        "SLOTS | SHARDS | NODES | INFO | MYID | KEYSLOT | COUNTKEYSINSLOT | REPLICAS | HELP [...]"
        "Which node has which slots; with --dict."
        Session(cluster::cluster);
    ReadOnly "readonly" 1 [LOADING STALE FAST] (0 0 0) "cluster" "3.0.0" ""
        "Allows reads of a replica, which are always allowed here."
        Session(cluster::accept);
    ReadWrite "readwrite" 1 [LOADING STALE FAST] (0 0 0) "cluster" "3.0.0" "" "Ends READONLY; changes nothing here."
        Session(cluster::accept);
    Asking "asking" 1 [FAST] (0 0 0) "cluster" "3.0.0" "" "Accepted after an ASK, which this server never answers."
        Session(cluster::accept);

    Command "command" -1 [LOADING STALE] (0 0 0) "server" "2.8.13" "[COUNT | DOCS | INFO | LIST | GETKEYS | HELP ...]"
        "Asks about commands."
        Session(introspect::command);
    Info "info" -1 [LOADING STALE] (0 0 0) "server" "1.0.0" "[section ...]" "Figures about the server."
        Session(info::info);
    Config "config" -2 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "2.0.0" "GET | SET | RESETSTAT | HELP [...]"
        "Reads and changes options."
        Session(config::config);
    DbSize "dbsize" 1 [READONLY FAST] (0 0 0) "server" "1.0.0" "" "The number of keys in the database."
        Scan(|space, call, _| keys::db_size(space, call));
    Time "time" 1 [LOADING STALE FAST] (0 0 0) "server" "2.6.0" "" "The server's clock."
        Session(introspect::time);
    FlushDb "flushdb" -1 [WRITE WAITS] (0 0 0) "server" "1.0.0" "[ASYNC | SYNC]" "Removes all keys of the database."
        Change(|alone, call| keys::flush(alone, call, false));
    FlushAll "flushall" -1 [WRITE WAITS] (0 0 0) "server" "1.0.0" "[ASYNC | SYNC]" "Removes all keys of all databases."
        Change(|alone, call| keys::flush(alone, call, true));
    SwapDb "swapdb" 3 [WRITE FAST WAITS] (0 0 0) "server" "4.0.0" "index1 index2" "Exchanges two databases."
        Change(keys::swap_db);
    Debug "debug" -2 [ADMIN NOSCRIPT LOADING STALE NO_MULTI] (0 0 0) "server" "1.0.0" "SLEEP seconds | HELP"
        "Lets this connection wait."
        Session(introspect::debug);
    Save "save" 1 [ADMIN NOSCRIPT NO_MULTI WAITS] (0 0 0) "server" "1.0.0" ""
        "Makes a checkpoint of the file and waits for it."
        Session(introspect::save);
    BgSave "bgsave" -1 [ADMIN NOSCRIPT] (0 0 0) "server" "1.0.0" "[SCHEDULE]" "Begins a checkpoint of the file."
        Session(introspect::begin_save);
    LastSave "lastsave" 1 [LOADING STALE FAST] (0 0 0) "server" "1.0.0" "" "When the last checkpoint was complete."
        Session(introspect::last_save);
    Shutdown "shutdown" -1 [ADMIN NOSCRIPT LOADING STALE NO_MULTI] (0 0 0) "server" "1.0.0"
        "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]" "Ends the server."
        Session(introspect::shutdown);
    SlowLog "slowlog" -2 [ADMIN LOADING STALE] (0 0 0) "server" "2.2.12" "GET [count] | LEN | RESET | HELP"
        "The slowest requests of late."
        Session(introspect::slow_log);
    Latency "latency" -2 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "2.8.13"
        "HISTOGRAM [command ...] | RESET | LATEST | HELP" "How long commands took."
        Session(introspect::latency);
    Monitor "monitor" 1 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "1.0.0" ""
        "Receives every command that is executed."
        Session(introspect::monitor);
    Memory "memory" -2 [READONLY] (2 2 1) "server" "4.0.0"
        "USAGE key [SAMPLES count] | STATS | PURGE | DOCTOR | MALLOC-STATS | HELP"
        "The memory of a key, and figures about memory."
        Lookup(introspect::memory);
    Module "module" -2 [ADMIN NOSCRIPT] (0 0 0) "server" "4.0.0" "LIST | HELP" "As with no module loaded."
        Session(extensions::module);
    Role "role" 1 [LOADING STALE FAST] (0 0 0) "server" "2.8.12" "" "That this server is a master without replicas."
        Session(introspect::role);
    Acl "acl" -2 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "6.0.0"
        "SETUSER | GETUSER | DELUSER | LIST | USERS | WHOAMI | CAT | GENPASS | DRYRUN | LOG | LOAD | SAVE | HELP [...]"
        "Users, and what each may do."
        Session(acl::acl);
    HtStats "ht.stats" -1 [READONLY WAITS] (0 0 0) "server" "splitpoint 0.1" "[SAMPLE buckets]"
        "Bucket histogram and probes of the table, from a sample."
        Scan(|space, call, _| stats::ht_stats(space, call));
    HtCompact "ht.compact" 1 [ADMIN NOSCRIPT NO_MULTI WAITS] (0 0 0) "server" "splitpoint 0.1" ""
        "Gives unused space of the files back; others go on."
        Session(introspect::compact);
    } };
}

pub(super) use rows;
