//! Locks that are taken also after a panic: a panic is contained per AppWrapper, and what these locks guard stays valid.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A mutex that is locked also after a panic.
pub trait Locked<T: ?Sized> {
    /// Waits for the lock.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T: ?Sized> Locked<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock of one writer or many readers that is locked also after a panic.
pub trait RwLocked<T: ?Sized> {
    /// Waits for the lock, to read.
    fn read_locked(&self) -> RwLockReadGuard<'_, T>;

    /// Waits for the lock, to write.
    fn write_locked(&self) -> RwLockWriteGuard<'_, T>;
}

impl<T: ?Sized> RwLocked<T> for RwLock<T> {
    fn read_locked(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_locked(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_while_a_lock_is_held_takes_it_from_nobody() {
        let (one, many) = (Mutex::new(1), RwLock::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = (one.locked(), many.write_locked());
            panic!("while both are held");
        }));
        assert!(panicked.is_err() && one.is_poisoned() && many.is_poisoned());
        *one.locked() += 1;
        *many.write_locked() += 1;
        assert_eq!((*one.locked(), *many.read_locked()), (2, 2));
    }
}
