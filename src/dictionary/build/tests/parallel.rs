//! Results come in the order of the items, and errors end the work.

use super::*;
use crate::error::{Error, ErrorKind};

#[test]
fn results_come_in_the_order_of_the_items() {
    for threads in [1, 2, 7] {
        let squares = in_parallel(threads, (0..100).collect(), |number, item: usize| Ok((number, item * item)));
        assert_eq!(squares.unwrap(), (0..100).map(|n| (n, n * n)).collect::<Vec<_>>(), "{threads} threads");
        assert_eq!(in_parallel(threads, Vec::<u8>::new(), |_, item| Ok(item)).unwrap(), Vec::<u8>::new());
    }
}

#[test]
fn after_an_error_no_more_items_are_begun() {
    for threads in [1, 2] {
        let begun = AtomicUsize::new(0);
        let failed = in_parallel(threads, vec![(); 10_000], |number, ()| {
            begun.fetch_add(1, Relaxed);
            if number == 10 { Err(Error::new(ErrorKind::Stopped, "enough")) } else { Ok(()) }
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Stopped);
        assert!(begun.load(Relaxed) < 10_000, "{threads} threads");
    }
}
