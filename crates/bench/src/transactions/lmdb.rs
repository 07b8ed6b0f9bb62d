//! LMDB. Transactions that need not be durable are committed under an environment flag, which is changed between
//! transactions. Compaction is a copy that replaces the file, as LMDB's documentation says.

#![expect(unsafe_code, reason = "heed asks for it where a process could open a file twice")]

use super::{Numbers, Transactions, key, value};
use crate::engine::Outcome;
use ::heed::types::Bytes;
use ::heed::{CompactionOption, Database, Env, EnvFlags, EnvOpenOptions, FlagSetMode};
use std::path::{Path, PathBuf};

struct Open {
    /// `None` only while the file is replaced.
    env: Option<(Env, Database<Bytes, Bytes>)>,
    directory: PathBuf,
    map_bytes: usize,
}

/// Readers at the same time, and those that are checked.
const READERS_MAX: u32 = 126;

fn open_env(directory: &Path, map_bytes: usize) -> Outcome<(Env, Database<Bytes, Bytes>)> {
    // SAFETY: the directory is this process's own, and no other environment is open in it.
    let env = unsafe { EnvOpenOptions::new().map_size(map_bytes).max_readers(READERS_MAX).open(directory)? };
    let mut transaction = env.write_txn()?;
    let database = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    Ok((env, database))
}

pub(super) fn open(directory: &Path, payload: u64) -> Outcome<Box<dyn Transactions>> {
    let map_bytes = usize::try_from(payload * 4)?.max(1 << 30).next_multiple_of(1 << 20);
    let env = Some(open_env(directory, map_bytes)?);
    Ok(Box::new(Open { env, directory: directory.to_path_buf(), map_bytes }))
}

impl Open {
    fn env(&self) -> Outcome<&(Env, Database<Bytes, Bytes>)> {
        self.env.as_ref().ok_or_else(|| "the environment is closed".into())
    }
}

impl Transactions for Open {
    fn put(&self, numbers: Numbers<'_>, durable: bool) -> Outcome {
        let (env, database) = self.env()?;
        let mode = if durable { FlagSetMode::Disable } else { FlagSetMode::Enable };
        // SAFETY: NO_SYNC is allowed between transactions, and one thread writes.
        unsafe { env.set_flags(EnvFlags::NO_SYNC, mode)? };
        let mut transaction = env.write_txn()?;
        for number in numbers {
            database.put(&mut transaction, &key(number), &value(number))?;
        }
        Ok(transaction.commit()?)
    }

    fn remove(&self, numbers: Numbers<'_>) -> Outcome {
        let (env, database) = self.env()?;
        // SAFETY: as in `put`.
        unsafe { env.set_flags(EnvFlags::NO_SYNC, FlagSetMode::Disable)? };
        let mut transaction = env.write_txn()?;
        for number in numbers {
            database.delete(&mut transaction, &key(number))?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, numbers: Numbers<'_>, each: &mut dyn FnMut(u64, Option<&[u8]>)) -> Outcome {
        let (env, database) = self.env()?;
        let transaction = env.read_txn()?;
        for number in numbers {
            each(number, database.get(&transaction, &key(number))?);
        }
        Ok(())
    }

    fn compact(&mut self) -> Outcome {
        let copy = self.directory.join("copy.mdb");
        let (env, _) = self.env.take().ok_or("the environment is closed")?;
        env.copy_to_path(&copy, CompactionOption::Enabled)?;
        env.prepare_for_closing().wait();
        std::fs::rename(copy, self.directory.join("data.mdb"))?;
        self.env = Some(open_env(&self.directory, self.map_bytes)?);
        Ok(())
    }
}
