//! Which connection has to close.

use std::io::Write;

use tokio::net::TcpListener;

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

fn on_a_runtime(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// A connection: the client's end, and ours.
async fn pair() -> (std::net::TcpStream, Arc<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, Arc::new(listener.accept().await.unwrap().0))
}

fn is_given_up(place: &ConnectionSlot) -> bool {
    // A permit that is there is taken at the first poll.
    let mut notified = std::pin::pin!(place.given_up.notified());
    notified.as_mut().enable()
}

#[test]
fn longest_idle_gives_way() {
    on_a_runtime(async {
        let (_client, ours) = pair().await;
        let places = ConnectionSlots::new(3, 0);
        let [a, b, c] = [(); 3].map(|()| Arc::new(places.enter(HERE, &ours).unwrap().place));
        // A recently used connection is not the longest idle one; a connection with a request in progress is not idle.
        a.begin();
        a.end();
        b.begin();
        let entered = places.enter(HERE, &ours).unwrap();
        assert!(entered.for_another && is_given_up(&c));
        assert!(!is_given_up(&a) && !is_given_up(&b));
        let entered = places.enter(HERE, &ours).unwrap();
        assert!(entered.for_another && is_given_up(&a));
        drop(entered);
        assert!(!places.enter(HERE, &ours).unwrap().for_another, "a place was given back");
    });
}

#[test]
fn busy_connections_stay() {
    on_a_runtime(async {
        let (_client, ours) = pair().await;
        let places = ConnectionSlots::new(2, 0);
        let [a, b] = [(); 2].map(|()| Arc::new(places.enter(HERE, &ours).unwrap().place));
        let (asked, kept) = (a.keep(), b.keep());
        assert!(places.enter(HERE, &ours).is_none());
        // It has two reasons.
        a.begin();
        drop(asked);
        assert!(places.enter(HERE, &ours).is_none());
        drop(kept);
        assert!(places.enter(HERE, &ours).unwrap().for_another);
        assert!(is_given_up(&b) && !is_given_up(&a));
    });
}

#[test]
fn incomplete_body_gives_way_and_complete_one_stays() {
    on_a_runtime(async {
        let (_client, ours) = pair().await;
        let places = ConnectionSlots::new(3, 0);
        let [a, b, c] = [(); 3].map(|()| Arc::new(places.enter(HERE, &ours).unwrap().place));
        [&a, &b, &c].into_iter().for_each(|place| place.begin());
        [&c, &b, &a].into_iter().for_each(|place| place.begin_body());
        assert!(!a.is_busy() && !b.is_busy() && !c.is_busy());
        let d = places.enter(HERE, &ours).unwrap().place;
        assert!(is_given_up(&c), "it has waited longest");
        d.begin();
        b.end_body();
        let e = places.enter(HERE, &ours).unwrap().place;
        assert!(b.is_busy() && is_given_up(&a) && !is_given_up(&b), "a complete request stays");
        e.begin();
        assert!(places.enter(HERE, &ours).is_none(), "all have one");
        b.end();
        assert!(places.enter(HERE, &ours).unwrap().for_another && is_given_up(&b));
        assert!(places.lock().idle.is_empty());
    });
}

#[test]
fn request_without_a_place_must_be_complete() {
    on_a_runtime(async {
        let (_client, ours) = pair().await;
        let places = ConnectionSlots::new(1, 0);
        let a = places.enter(HERE, &ours).unwrap().place;
        let b = places.enter(HERE, &ours).unwrap().place;
        assert!(is_given_up(&a));
        // One that comes at the last moment is answered.
        a.begin();
        assert!(a.is_busy() && !is_given_up(&a));
        a.begin_body();
        assert!(!a.is_busy() && is_given_up(&a) && !is_given_up(&b));
        a.end_body();
        a.end();
        assert_eq!(places.lock().idle.len(), 1, "that of the other");
    });
}

#[test]
fn unread_bytes_are_a_request() {
    on_a_runtime(async {
        let (mut client, ours) = pair().await;
        let (_silent, other) = pair().await;
        let places = ConnectionSlots::new(2, 0);
        let a = places.enter(HERE, &ours).unwrap().place;
        let b = places.enter(HERE, &other).unwrap().place;
        client.write_all(b"POST").unwrap();
        hearth_testkit::wait_until("the bytes", || !places.lock().open[&a.number].is_silent());
        let entered = places.enter(HERE, &ours).unwrap();
        assert!(is_given_up(&b) && !is_given_up(&a));
        // Now all open connections have sent something.
        assert!(places.enter(HERE, &ours).is_none());
        drop(entered);
    });
}

#[test]
fn address_makes_room_for_itself() {
    on_a_runtime(async {
        let (_client, ours) = pair().await;
        let places = ConnectionSlots::new(10, 2);
        let other = places.enter(ELSEWHERE, &ours).unwrap().place;
        let [a, b] = [(); 2].map(|()| Arc::new(places.enter(HERE, &ours).unwrap().place));
        let kept = a.keep();
        let c = places.enter(HERE, &ours).unwrap();
        assert!(c.for_another && is_given_up(&b) && !is_given_up(&other));
        c.place.begin();
        assert!(places.enter(HERE, &ours).is_none(), "both of the address are busy");
        assert!(places.enter(ELSEWHERE, &ours).is_some());
        drop(kept);
    });
}
