"""Why a command got its credit: as data, as a table for the terminal, as pages for a browser."""
