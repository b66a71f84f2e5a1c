"""The APIs of the server; each is a folder, and none imports another."""
