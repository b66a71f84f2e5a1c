"""The journal in a database: SQLite for one machine, PostgreSQL for many."""
