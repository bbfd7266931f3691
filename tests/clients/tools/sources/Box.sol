// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {OwnableUpgradeable} from "@openzeppelin/contracts-upgradeable/access/OwnableUpgradeable.sol";
import {Initializable} from "@openzeppelin/contracts/proxy/utils/Initializable.sol";
import {UUPSUpgradeable} from "@openzeppelin/contracts/proxy/utils/UUPSUpgradeable.sol";

/// A value that its owner may change, behind a proxy.
contract Box is Initializable, OwnableUpgradeable {
    uint256 public value;

    /// @custom:oz-upgrades-unsafe-allow constructor
    constructor() {
        _disableInitializers();
    }

    function initialize(uint256 first) public virtual initializer {
        __Ownable_init(msg.sender);
        value = first;
    }

    function store(uint256 next) external onlyOwner {
        value = next;
    }
}

/// As Box, and it counts up.
contract BoxV2 is Box {
    function increment() external {
        value += 1;
    }
}

/// Whose storage is laid out otherwise: no upgrade of Box.
contract BoxOtherwise is Initializable, OwnableUpgradeable {
    address public first;
    uint256 public value;
}

/// A box that upgrades itself.
contract OwnBox is Box, UUPSUpgradeable {
    function _authorizeUpgrade(address) internal override onlyOwner {}
}

contract OwnBoxV2 is OwnBox {
    function increment() external {
        value += 1;
    }
}
