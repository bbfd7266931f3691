//! Ethereum's JSON-RPC over HTTP and WebSocket.
