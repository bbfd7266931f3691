//! Congestion control that tells a poor path from a full one.
//!
//! CUBIC takes each lost packet as a sign that a queue on the path is full. If the path loses 5 % of its packets at any
//! rate, the window stays near 1.2 / √0.05 = 5 packets: 150 transactions a second to a leader 175 ms away, while the
//! others wait behind them for seconds. [`LossTolerant`] reports losses to CUBIC only if more than an eighth of the
//! packets is lost. It is for connections with a small send window, which bounds the harm of a wrong judgement.
//!
//! reads   acknowledgements and losses, from quinn
//! writes  how many bytes may be in flight
//! memory  two counters beside CUBIC's
//! source  CUBIC is RFC 9438, as quinn has it. That the rate of losses decides, and not each loss, is BBR's rule
//!         (draft-ietf-ccwg-bbr), with another limit

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, Cubic, CubicConfig};

/// The loss rate is measured over at most this many bytes, about 200 packets. At 5 % loss 10 ± 3 of them are lost, far
/// from the limit of 25.
const SAMPLE_BYTES: u64 = 256 << 10;
/// The path counts as full if it loses more than one packet in this many.
const LOST_ONE_IN: u64 = 8;

/// CUBIC that learns only of losses on a full path.
#[derive(Clone, Debug)]
pub(crate) struct LossTolerant {
    cubic: Cubic,
    /// Bytes acknowledged and lost recently. A new path starts with half a sample acknowledged, so that the first few
    /// packets decide nothing.
    acknowledged: u64,
    lost: u64,
}

impl LossTolerant {
    fn new(cubic: Cubic) -> Self {
        Self { cubic, acknowledged: SAMPLE_BYTES / 2, lost: 0 }
    }

    /// Counts packets; a full sample is halved, so that old packets weigh less.
    fn count(&mut self, acknowledged: u64, lost: u64) {
        self.acknowledged += acknowledged;
        self.lost += lost;
        if self.acknowledged + self.lost > SAMPLE_BYTES {
            self.acknowledged /= 2;
            self.lost /= 2;
        }
    }

    fn is_path_full(&self) -> bool {
        self.lost * LOST_ONE_IN > self.acknowledged + self.lost
    }
}

impl Controller for LossTolerant {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.count(bytes, 0);
        self.cubic.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.count(0, lost_bytes);
        // No lost bytes: a router has marked packets by ECN.
        if lost_bytes == 0 || is_persistent_congestion || self.is_path_full() {
            self.cubic.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
            // The next decision needs new losses.
            self.acknowledged = SAMPLE_BYTES / 2;
            self.lost = 0;
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.cubic.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.cubic.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.cubic.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.cubic.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Makes a [`LossTolerant`] for each path.
pub(crate) struct LossTolerantConfig(pub Arc<CubicConfig>);

impl ControllerFactory for LossTolerantConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(LossTolerant::new(Cubic::new(self.0.clone(), now, current_mtu)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MTU: u16 = 1200;

    /// The window before and after a thousand packets, one a millisecond, of which every `nth` is lost.
    fn windows(nth: u64) -> [u64; 2] {
        let start = Instant::now();
        let mut controller = LossTolerant::new(Cubic::new(Arc::default(), start, MTU));
        let before = controller.window();
        for packet in 1..=1_000 {
            let now = start + Duration::from_millis(packet);
            match packet % nth {
                0 => controller.on_congestion_event(now, now, false, MTU.into()),
                _ => controller.count(MTU.into(), 0),
            }
        }
        [before, controller.window()]
    }

    #[test]
    fn few_losses_leave_the_window() {
        for nth in [10, 20, 100] {
            let [before, after] = windows(nth);
            assert_eq!(after, before, "one packet in {nth} is lost");
        }
    }

    #[test]
    fn many_losses_shrink_the_window() {
        for nth in [2, 4, 5] {
            let [before, after] = windows(nth);
            assert!(after < before / 2, "{before} to {after} where one packet in {nth} is lost");
        }
    }

    #[test]
    fn an_outage_and_a_mark_count_at_once() {
        let start = Instant::now();
        let later = start + Duration::from_secs(1);
        let fresh = || LossTolerant::new(Cubic::new(Arc::default(), start, MTU));
        let [mut outage, mut marked] = [fresh(), fresh()];
        outage.on_congestion_event(later, later, true, MTU.into());
        assert_eq!(outage.window(), 2 * u64::from(MTU));
        marked.on_congestion_event(later, later, false, 0);
        assert!(marked.window() < fresh().window());
    }
}
