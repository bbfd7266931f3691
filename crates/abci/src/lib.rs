//! CometBFT's application protocol, ABCI 2: messages and a server for its four connections.
