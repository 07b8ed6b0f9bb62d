//! External sort in hash order, in bounded memory.
