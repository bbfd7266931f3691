// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// What a load of calls writes to: a sum for each sender, so that no two senders meet.
contract Store {
    mapping(address => uint256) public sum;

    event Added(address indexed sender, uint256 value);

    function add(uint256 value) external {
        sum[msg.sender] += value;
        emit Added(msg.sender, value);
    }
}
