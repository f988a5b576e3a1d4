"""Pages for a browser, each one HTML file that opens from disk without a network."""
