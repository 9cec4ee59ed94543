//! A bounded channel from many reflectors to the decider that uses their changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, mpsc};

/// The most news that may wait before the reflectors stop reading.
const MOST: usize = 16 << 10;

/// Passes news on. Clones share the channel.
#[derive(Debug)]
pub struct NewsSender<N> {
    send: mpsc::UnboundedSender<N>,
    waiting: Arc<Waiting>,
}

/// Takes news.
#[derive(Debug)]
pub struct NewsReceiver<N> {
    received: mpsc::UnboundedReceiver<N>,
    waiting: Arc<Waiting>,
}

/// How much news waits.
#[derive(Debug)]
struct Waiting {
    count: AtomicUsize,
    most: usize,
    /// There is room again.
    room: Notify,
}

/// A channel for changes. No change is lost: a reflector without room does not read its next object, and its server
/// waits. The channel may exceed its bound by the objects that each reflector reports as deleted at once after a gap.
pub fn news<N>() -> (NewsSender<N>, NewsReceiver<N>) {
    at_most(MOST)
}

fn at_most<N>(most: usize) -> (NewsSender<N>, NewsReceiver<N>) {
    let (send, received) = mpsc::unbounded_channel();
    let waiting = Arc::new(Waiting {
        count: AtomicUsize::new(0),
        most,
        room: Notify::new(),
    });
    let sender = NewsSender {
        send,
        waiting: Arc::clone(&waiting),
    };
    (sender, NewsReceiver { received, waiting })
}

impl<N> Clone for NewsSender<N> {
    fn clone(&self) -> Self {
        Self {
            send: self.send.clone(),
            waiting: Arc::clone(&self.waiting),
        }
    }
}

impl<N> NewsSender<N> {
    /// Passes something on. Without a receiver it is dropped.
    pub fn send(&self, news: N) {
        self.waiting.count.fetch_add(1, Ordering::AcqRel);
        // The receiver is dropped at the end of the program.
        let _ = self.send.send(news);
    }

    /// Waits until there is room for more.
    pub async fn room(&self) {
        loop {
            // Before the look, so that no word is missed.
            let mut notified = std::pin::pin!(self.waiting.room.notified());
            notified.as_mut().enable();
            if self.waiting.count.load(Ordering::Acquire) < self.waiting.most {
                return;
            }
            notified.await;
        }
    }

    /// Whether the receiver was dropped.
    pub fn is_closed(&self) -> bool {
        self.send.is_closed()
    }

    /// Waits until the receiver is dropped.
    pub async fn closed(&self) {
        self.send.closed().await;
    }
}

impl<N> NewsReceiver<N> {
    /// The next news; `None` without a sender. Cancel safe.
    pub async fn recv(&mut self) -> Option<N> {
        let news = self.received.recv().await;
        self.taken(news)
    }

    /// The next news, if any waits.
    pub fn try_recv(&mut self) -> Option<N> {
        let news = self.received.try_recv().ok();
        self.taken(news)
    }

    fn taken(&self, news: Option<N>) -> Option<N> {
        if news.is_some() {
            let before = self.waiting.count.fetch_sub(1, Ordering::AcqRel);
            if before == self.waiting.most {
                self.waiting.room.notify_waiters();
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_sender_waits_until_there_is_room_and_no_news_is_lost() {
        let (send, mut receive) = at_most(3);
        let teller = send.clone();
        let told = tokio::spawn(async move {
            for number in 0..10 {
                teller.send(number);
                teller.room().await;
            }
        });
        let full = timeout(Duration::from_secs(1), async { send.room().await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(send.waiting.count.load(Ordering::Acquire), 3);
        assert!(full.await.is_err(), "there is no room");
        for number in 0..10 {
            assert_eq!(receive.recv().await, Some(number));
            assert!(send.waiting.count.load(Ordering::Acquire) <= 3);
        }
        told.await.unwrap();
        assert_eq!(receive.try_recv(), None);
        drop(send);
        assert_eq!(receive.recv().await, None);
    }
}
