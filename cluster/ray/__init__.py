"""Access to Ray: connections, authentication, TLS and calls."""
