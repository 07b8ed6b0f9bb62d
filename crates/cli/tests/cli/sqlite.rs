//! `load sqlite:FILE#TABLE`, of databases that SQLite itself makes.

use super::{directory, run, run_well};
use rusqlite::Connection;
use std::fs;
use std::path::Path;

/// Creates a database of `sql` as `d.db`.
fn database(place: &Path, sql: &str) -> Connection {
    let connection = Connection::open(place.join("d.db")).unwrap();
    connection.execute_batch(sql).unwrap();
    connection
}

fn dumped(place: &Path, arguments: &[&str]) -> String {
    let _ = fs::remove_file(place.join("t.spt"));
    run_well(place, &[&["load", "t.spt"], arguments].concat());
    let dump = String::from_utf8(run_well(place, &["dump", "t.spt"])).unwrap();
    let mut lines: Vec<_> = dump.lines().collect();
    lines.sort_unstable();
    lines.join("|")
}

/// Returns the exit status and the message of a load that fails.
fn refused(place: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(place, &[&["load", "r.spt"], arguments].concat());
    assert!(!place.join("r.spt").exists());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn two_columns_are_pairs_and_options_choose_them() {
    let place = directory();
    let place = place.path();
    database(
        place,
        "CREATE TABLE users(id INTEGER, name TEXT, score REAL, photo BLOB);
         INSERT INTO users VALUES (1, 'Ada', 0.5, x'0001'), (2, 'Alan', 1e300, x'');
         CREATE VIEW names AS SELECT name, id FROM users;",
    );
    assert_eq!(dumped(place, &["sqlite:d.db#users", "--value", "name"]), "1\tAda|2\tAlan");
    assert_eq!(dumped(place, &["sqlite:d.db#names"]), "Ada\t1|Alan\t2");
    assert_eq!(dumped(place, &["sqlite:d.db#users", "--key", "name", "--value", "4"]), "Ada\t\\x00\\x01|Alan\t");
    assert_eq!(dumped(place, &["sqlite:d.db#names", "--key", "id"]), "1\tAda|2\tAlan");
    let all = ["id", "name", "score"].map(|key| ["--key", key]).concat();
    assert_eq!(
        dumped(place, &[&["sqlite:d.db#users", "--key-separator", "/"], &all[..]].concat()),
        "1/Ada/0.5\t\\x00\\x01|2/Alan/1e300\t"
    );
    for options in [&[][..], &["--key", "2"], &all[..4]] {
        let (status, message) = refused(place, &[&["sqlite:d.db#users"], options].concat());
        assert_eq!(status, Some(2));
        let named = message.contains(r#"has the columns "id", "name", "score", "photo"; --value COLUMN chooses"#);
        assert!(named, "columns would be left out: {message}");
    }
    let joined = dumped(
        place,
        &["sqlite:d.db#users", "--key", "1", "--key", "name", "--key-separator", "/", "--value", "score"],
    );
    assert_eq!(joined, "1/Ada\t0.5|2/Alan\t1e300");
}

#[test]
fn a_column_called_by_a_number_is_meant_by_its_name() {
    let place = directory();
    let place = place.path();
    database(place, r#"CREATE TABLE n("2" TEXT, "1" TEXT, v TEXT); INSERT INTO n VALUES ('key', 'value', 'x');"#);
    assert_eq!(dumped(place, &["sqlite:d.db#n", "--key", "2", "--value", "1"]), "key\tvalue");
    assert_eq!(dumped(place, &["sqlite:d.db#n", "--key", "@2", "--value", "@1"]), "value\tkey");
    assert_eq!(dumped(place, &["sqlite:d.db#n", "--key", "3", "--value", "1"]), "x\tvalue");
    let (status, message) = refused(place, &["sqlite:d.db#n", "--key", "@4"]);
    assert_eq!(status, Some(2));
    assert!(message.contains(r#"no column @4; there are 3: "2", "1", "v""#), "{message}");
}

#[test]
fn names_are_never_sql() {
    let place = directory();
    let place = place.path();
    database(
        place,
        "CREATE TABLE \"a\"\"; DROP TABLE kept; --#x\"(\"k\"\"ey\", \"v, (SELECT 1)\");
         INSERT INTO \"a\"\"; DROP TABLE kept; --#x\" VALUES ('k', 'v');
         CREATE TABLE kept(k, v); INSERT INTO kept VALUES (1, 2);",
    );
    fs::rename(place.join("d.db"), place.join("d#1.db")).unwrap();
    let (status, message) = refused(place, &["sqlite:d#1.db#a\"; DROP TABLE kept; --#x"]);
    assert_eq!(status, Some(11), "the name of the table begins at the last #: {message}");
    fs::rename(place.join("d#1.db"), place.join("d.db")).unwrap();
    let connection = Connection::open(place.join("d.db")).unwrap();
    connection
        .execute_batch("ALTER TABLE \"a\"\"; DROP TABLE kept; --#x\" RENAME TO \"a\"\"; DROP TABLE kept; --\"")
        .unwrap();
    let table = "sqlite:d.db#a\"; DROP TABLE kept; --";
    assert_eq!(dumped(place, &[table]), "k\tv");
    assert_eq!(dumped(place, &[table, "--key", "v, (SELECT 1)", "--value", "k\"ey"]), "v\tk");
    let (status, message) = refused(place, &["sqlite:d.db#kept", "--value", "k FROM kept; --"]);
    assert!(
        status == Some(2) && message.contains("no column \"k FROM kept; --\"; there are \"k\", \"v\""),
        "{message}"
    );
    assert_eq!(dumped(place, &["sqlite:d.db#kept"]), "1\t2");
}

#[test]
fn a_table_has_the_permissions_of_the_database() {
    use std::os::unix::fs::PermissionsExt;
    let place = directory();
    let place = place.path();
    drop(database(place, "CREATE TABLE t(k, v); INSERT INTO t VALUES (1, 2);"));
    fs::set_permissions(place.join("d.db"), fs::Permissions::from_mode(0o600)).unwrap();
    dumped(place, &["sqlite:d.db#t"]);
    assert_eq!(fs::metadata(place.join("t.spt")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_null_is_a_bad_row() {
    let place = directory();
    let place = place.path();
    database(place, "CREATE TABLE t(k, v); INSERT INTO t VALUES (1, 2), (3, NULL), (5, 6);");
    let output = run(place, &["load", "n.spt", "sqlite:d.db#t"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && message.contains("d.db#t: pair 2: \"v\" is null"), "{message}");
    assert_eq!(dumped(place, &["sqlite:d.db#t", "--on-error", "skip"]), "1\t2|5\t6");
}

#[test]
fn what_is_no_table_of_a_database_is_a_clear_error() {
    let place = directory();
    let place = place.path();
    let holder = database(place, "CREATE TABLE t(k, v); INSERT INTO t VALUES (1, 2); CREATE TABLE one(k);");
    for (input, status, what) in [
        ("sqlite:absent.db#t", 11, "absent.db: No such file"),
        ("sqlite:d.db#none", 2, "no such table: none"),
        ("sqlite:d.db#one", 2, "has no other column for the value"),
        ("sqlite:d.db", 2, "name the table, as in sqlite:users.db#users"),
        ("sqlite:d.db#", 2, "name the table"),
    ] {
        let (code, message) = refused(place, &[input]);
        assert!(code == Some(status) && message.contains(what), "{input}: {code:?} {message}");
    }
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let (code, message) = refused(place, &["sqlite:d.db#t"]);
    assert!(code == Some(20) && message.contains("another process has locked the database"), "{message}");
    holder.execute_batch("COMMIT").unwrap();
    fs::write(place.join("text.db"), "key,value\n".repeat(100)).unwrap();
    let (code, message) = refused(place, &["sqlite:text.db#t"]);
    assert!(code == Some(14) && message.contains("is not an SQLite database"), "{message}");
}

#[test]
fn every_damaged_byte_gives_rows_or_an_error() {
    let place = directory();
    let place = place.path();
    drop(database(place, "PRAGMA page_size = 512; CREATE TABLE t(k, v); INSERT INTO t VALUES (1, 2), (3, 4);"));
    let whole = fs::read(place.join("d.db")).unwrap();
    // Every byte of the headers of the file and its two pages, and some of the rest.
    for at in (0..108).chain(512..540).chain((540..whole.len()).step_by(37)) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        fs::write(place.join("d.db"), damaged).unwrap();
        let output = run(place, &["load", "x.spt", "sqlite:d.db#t", "--on-error", "skip"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0..=20)), "byte {at}: {:?} {message}", output.status);
        assert!(output.status.success() || message.starts_with("splitpoint: "), "byte {at}: {message}");
    }
}

#[test]
fn a_journal_of_an_interrupted_write_is_named() {
    let place = directory();
    let place = place.path();
    let connection = database(place, "CREATE TABLE t(k, v); PRAGMA cache_size = 2;");
    for key in 0..500 {
        connection.execute("INSERT INTO t VALUES (?1, hex(zeroblob(200)))", [key]).unwrap();
    }
    connection.execute_batch("BEGIN; UPDATE t SET v = 'changed';").unwrap();
    // Copies of the files as a power loss leaves them.
    for suffix in ["", "-journal"] {
        fs::copy(place.join(format!("d.db{suffix}")), place.join(format!("e.db{suffix}"))).unwrap();
    }
    let (status, message) = refused(place, &["sqlite:e.db#t"]);
    assert_eq!(status, Some(20), "{message}");
    assert!(message.contains("a write to the database was interrupted"), "{message}");
}
