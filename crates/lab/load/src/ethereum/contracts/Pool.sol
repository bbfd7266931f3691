// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// One of the two tokens of a pool, which alone mints and moves it without being allowed to by each holder.
contract PoolToken {
    address public immutable pool = msg.sender;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;

    event Transfer(address indexed from, address indexed to, uint256 value);

    error NotPool(address caller);
    error InsufficientBalance(address account, uint256 balance, uint256 needed);

    function mint(address to, uint256 value) external {
        if (msg.sender != pool) revert NotPool(msg.sender);
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        if (msg.sender != pool) revert NotPool(msg.sender);
        move(from, to, value);
        return true;
    }

    function move(address from, address to, uint256 value) private {
        uint256 balance = balanceOf[from];
        if (balance < value) revert InsufficientBalance(from, balance, value);
        unchecked {
            balanceOf[from] = balance - value;
        }
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}

/// A pool of two tokens whose product of reserves never falls: every swap meets every other one in its reserves.
contract Pool {
    PoolToken public immutable tokenA = new PoolToken();
    PoolToken public immutable tokenB = new PoolToken();
    address public immutable owner = msg.sender;
    uint256 public reserveA;
    uint256 public reserveB;

    event Swap(address indexed sender, bool aForB, uint256 given, uint256 got);

    error NotOwner(address caller);

    constructor() {
        reserveA = 1e30;
        reserveB = 1e30;
        tokenA.mint(address(this), 1e30);
        tokenB.mint(address(this), 1e30);
    }

    function mint(address[] calldata to, uint256 amount) external {
        if (msg.sender != owner) revert NotOwner(msg.sender);
        for (uint256 i = 0; i < to.length; i++) {
            tokenA.mint(to[i], amount);
            tokenB.mint(to[i], amount);
        }
    }

    function swap(bool aForB, uint256 given) external returns (uint256 got) {
        (PoolToken from, PoolToken to) = aForB ? (tokenA, tokenB) : (tokenB, tokenA);
        (uint256 reserveFrom, uint256 reserveTo) = aForB ? (reserveA, reserveB) : (reserveB, reserveA);
        uint256 counted = given * 997;
        got = (counted * reserveTo) / (reserveFrom * 1000 + counted);
        from.transferFrom(msg.sender, address(this), given);
        to.transfer(msg.sender, got);
        (reserveA, reserveB) = aForB
            ? (reserveFrom + given, reserveTo - got)
            : (reserveTo - got, reserveFrom + given);
        emit Swap(msg.sender, aForB, given, got);
    }
}
