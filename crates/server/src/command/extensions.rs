//! FUNCTION, FCALL and MODULE as in a Redis that has no library and no module loaded. Neither can be loaded here.

use super::call::{Args, Outcome, Refusal};
use super::reply;
use super::state::SessionState;

/// What FUNCTION DUMP returns where there is no library: Redis's version of the format, and a checksum.
const NO_LIBRARIES: &[u8] = b"\x0a\x00\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda";
const NO_FUNCTIONS: &str = "ERR this server has no functions; send the script with EVAL or SCRIPT LOAD";
const NO_MODULES: &str = "ERR this server has no modules";

/// FUNCTION subcommand ...
pub(super) fn function(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let version = session.version;
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"list", _) => {
            let (mut has_name, mut has_code, mut at) = (false, false, 2);
            while at < args.len() {
                if !has_code && args.is(at, "withcode") {
                    has_code = true;
                } else if !has_name && args.is(at, "libraryname") {
                    at += 1;
                    if at == args.len() {
                        return Err("ERR library name argument was not given".into());
                    }
                    has_name = true;
                } else {
                    return Err(Refusal::about("ERR Unknown argument ", args.at(at), ""));
                }
                at += 1;
            }
            reply::array(out, 0);
        }
        (b"stats", 2) => {
            reply::map(out, 2, version);
            reply::bulk(out, b"running_script");
            reply::null(out, version);
            reply::bulk(out, b"engines");
            reply::map(out, 1, version);
            reply::bulk(out, b"LUA");
            reply::map(out, 2, version);
            for name in ["libraries_count", "functions_count"] {
                reply::bulk(out, name.as_bytes());
                reply::integer(out, 0);
            }
        }
        (b"flush", 2 | 3) => {
            if args.len() == 3 && !args.is(2, "sync") && !args.is(2, "async") {
                return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into());
            }
            reply::ok(out);
        }
        (b"kill", 2) => return Err("NOTBUSY No scripts in execution right now.".into()),
        (b"dump", 2) => reply::bulk(out, NO_LIBRARIES),
        (b"delete", 3) => return Err("ERR Library not found".into()),
        (b"restore", 3 | 4) => {
            if args.len() == 4 && !["flush", "append", "replace"].iter().any(|policy| args.is(3, policy)) {
                let text = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
                return Err(text.into());
            }
            if args.at(2) != NO_LIBRARIES {
                return Err(NO_FUNCTIONS.into());
            }
            reply::ok(out);
        }
        (b"load", 3..) => return Err(NO_FUNCTIONS.into()),
        (b"help", 2) => {
            let lines = [
                "DUMP | RESTORE <serialized> [FLUSH|APPEND|REPLACE]",
                "    Serializes or restores the libraries; there are none.",
                "FLUSH [ASYNC|SYNC]",
                "    Removes all libraries.",
                "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
                "    Lists the libraries; there are none.",
                "STATS",
                "    Returns the running function and the number of functions.",
            ];
            reply::help(out, "FUNCTION", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "FUNCTION")),
    }
    Ok(())
}

/// FCALL, FCALL_RO function numkeys ...
pub(super) fn call(_: &mut SessionState, _: Args<'_>, _: &mut Vec<u8>) -> Outcome {
    Err("ERR Function not found".into())
}

/// MODULE subcommand ...
pub(super) fn module(_: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"list", 2) => reply::array(out, 0),
        (b"help", 2) => reply::help(out, "MODULE", &["LIST", "    Lists the modules; there are none."]),
        _ => return Err(NO_MODULES.into()),
    }
    Ok(())
}
