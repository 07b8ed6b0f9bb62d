//! Readers in other processes: they see each write that has returned, and keep the state that they opened, even while
//! stopped or when killed.

use super::{Running, process};
use splitpoint::{Backup, Durability, Follower, Table, TableOptions};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

const PAIRS: u32 = 20_000;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn table_in(place: &Path) -> PathBuf {
    place.join("t.spt")
}

fn is_whole(table: &Table, value: u32) {
    assert_eq!(table.len(), u64::from(PAIRS));
    for n in 0..PAIRS {
        assert_eq!(table.get(&key(n)).unwrap().as_deref(), Some(&value.to_le_bytes()[..]), "{n}");
    }
    assert_eq!(table.scan().map(|pair| pair.unwrap()).filter(|(_, v)| **v == value.to_le_bytes()).count(), 20_000);
}

/// Opens the table for reading and checks it repeatedly until told to stop.
pub fn keep(place: &Path, arguments: &[u64]) {
    let [number, value] = [arguments[0], arguments[1]];
    let table = TableOptions::new().read_only(true).cache_bytes(1).open(table_in(place)).unwrap();
    is_whole(&table, value as u32);
    fs::write(place.join(format!("reads{number}")), "").unwrap();
    while !place.join("end").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    is_whole(&table, value as u32);
}

const DURABILITIES: [Durability; 2] = [Durability::Os, Durability::Sync];

/// Makes one write for each line of standard input, and reports that it returned.
pub fn put_in_turn(place: &Path, arguments: &[u64]) {
    let durability = DURABILITIES[arguments[0] as usize];
    let table = TableOptions::new().log_bytes(1 << 18).durability(durability).open(table_in(place)).unwrap();
    for (n, line) in (0u32..).zip(std::io::stdin().lock().lines()) {
        line.unwrap();
        match n % 4 {
            0 => table.put(&key(n), &[n as u8; 40]).unwrap(),
            1 => table.put(&key(n), &[n as u8; 9000]).unwrap(),
            2 => drop(table.append(&key(n), &[n as u8; 700]).unwrap()),
            _ => {
                let mut batch = table.batch();
                batch.put(&key(n), &[n as u8; 100]).unwrap();
                batch.commit().unwrap();
            }
        }
        println!("returned {n}");
    }
    std::mem::forget(table); // as if it were killed
}

#[test]
fn a_reader_in_another_process_has_every_write_that_returned_before_it_opened() {
    const WRITES: u32 = 500;
    for durability in 0..2 {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let mut command = process("put_in_turn", place, &[durability]);
        let mut writer =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut ask = writer.stdin.take().unwrap();
        let mut answers = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut follower = None;
        let copy = place.join("copy.spt");
        for n in 0..WRITES {
            ask.write_all(b"go on\n").unwrap();
            let returned = format!("returned {n}");
            while answers.next().expect("the writer answers").unwrap() != returned {}
            let opened = TableOptions::new().read_only(true).open(table_in(place)).unwrap();
            let follower = follower.get_or_insert_with(|| Follower::open(table_in(place)).unwrap());
            for table in [&opened, &*follower.newest().unwrap()] {
                assert!(table.contains(&key(n)).unwrap() && table.len() == u64::from(n) + 1, "write {n}");
                assert!(table.get(&key(n)).unwrap().unwrap().iter().all(|&byte| byte == n as u8), "write {n}");
            }
            if n % 50 == 0 {
                Backup::new().overwrite(true).save_file(table_in(place), &copy).unwrap();
                assert_eq!(Table::open(&copy).unwrap().len(), u64::from(n) + 1);
            }
        }
        drop(ask);
        Running(writer).end();
        let table = TableOptions::new().read_only(true).open(table_in(place)).unwrap();
        assert_eq!(table.len(), u64::from(WRITES), "after its writer ended without closing it");
        assert_eq!(table.verify().unwrap(), []);
    }
}

/// Sends a signal to a child process.
#[expect(unsafe_code, reason = "std can end a process and not stop it")]
pub fn send(process: &Child, signal: i32) {
    // SAFETY: the process is our child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(process.id() as i32, signal) }, 0);
}

#[test]
fn a_reader_keeps_its_checkpoint_and_one_that_is_stopped_or_killed_holds_back_nobody() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let table = Table::open(table_in(place)).unwrap();
    let put_all = |value: u32| {
        (0..PAIRS).for_each(|n| table.put(&key(n), &value.to_le_bytes()).unwrap());
        table.checkpoint().unwrap();
    };
    let start = |number: u64, value: u64| {
        let mut reader = Running::start(&mut process("keep", place, &[number, value]));
        reader.wait_for(&place.join(format!("reads{number}")));
        reader
    };
    put_all(1);
    let [killed, stopped] = [start(0, 1), start(1, 1)];
    send(&stopped.0, libc::SIGSTOP);
    put_all(2);
    let later = start(2, 2);
    (3..8).for_each(put_all);
    killed.kill();
    send(&stopped.0, libc::SIGCONT);
    put_all(8);
    fs::write(place.join("end"), "").unwrap();
    assert!(stopped.end().success() && later.end().success());
    put_all(9);
    is_whole(&TableOptions::new().read_only(true).open(table_in(place)).unwrap(), 9);
}
