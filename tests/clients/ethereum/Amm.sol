// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import "./Token.sol";

/// A market maker of two tokens: the product of its reserves never falls; 0.3 % of each input stays.
contract Amm {
    Token public immutable first;
    Token public immutable second;
    uint256 public shares;
    mapping(address => uint256) public shareOf;

    event Swap(address indexed who, address indexed paid, uint256 amountIn, uint256 amountOut);

    constructor(Token first_, Token second_) {
        first = first_;
        second = second_;
    }

    function add(uint256 amountFirst, uint256 amountSecond) external returns (uint256 minted) {
        uint256 hasFirst = first.balanceOf(address(this));
        minted = shares == 0 ? _root(amountFirst * amountSecond) : (amountFirst * shares) / hasFirst;
        require(minted > 0, "nothing added");
        shares += minted;
        shareOf[msg.sender] += minted;
        first.transferFrom(msg.sender, address(this), amountFirst);
        second.transferFrom(msg.sender, address(this), amountSecond);
    }

    function swap(Token paid, uint256 amountIn, uint256 least) external returns (uint256 amountOut) {
        require(paid == first || paid == second, "unknown token");
        Token given = paid == first ? second : first;
        uint256 hasIn = paid.balanceOf(address(this));
        uint256 hasOut = given.balanceOf(address(this));
        uint256 counted = amountIn * 997;
        amountOut = (counted * hasOut) / (hasIn * 1000 + counted);
        require(amountOut >= least, "too little comes out");
        paid.transferFrom(msg.sender, address(this), amountIn);
        given.transfer(msg.sender, amountOut);
        emit Swap(msg.sender, address(paid), amountIn, amountOut);
    }

    function _root(uint256 square) private pure returns (uint256 root) {
        if (square == 0) return 0;
        root = square;
        uint256 next = (square + 1) / 2;
        while (next < root) {
            root = next;
            next = (square / next + next) / 2;
        }
    }
}
