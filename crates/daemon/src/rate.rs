//! The rate at which a daemon may call the API server.

use crate::cluster::Cluster;
use clap::Args;
use evictd_cluster_client::{Actions, CallRate};
use tracing::{info, warn};

/// The flags of the rate, with the names that Kubernetes and Volcano use.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct RateFlags {
    /// Requests a second to the API server, and as many again for events. Watches and the lease are not limited. Default: no
    /// limit.
    #[arg(long = "kube-api-qps", value_name = "NUMBER")]
    pub qps: Option<f64>,
    /// Requests that may exceed that rate at once. Default: 100.
    #[arg(long = "kube-api-burst", value_name = "NUMBER")]
    pub burst: Option<u32>,
}

/// The calls of a daemon. Events have a rate of their own, so that they never delay other writes.
#[derive(Clone)]
pub struct LimitedCalls {
    /// All calls but those for events, watches and the lease.
    pub writes: Actions,
    /// Calls that write events.
    pub events: Actions,
}

impl Cluster {
    /// The calls at the rate of these settings, which is logged.
    pub fn calls_at(&self, RateFlags { qps, burst }: RateFlags) -> LimitedCalls {
        let rate = CallRate::of(qps, burst);
        if let Some(rate) = &rate {
            info!(
                "sends at most {rate}, to the API server, and as many again for events; watches and the lease are not limited"
            );
        } else {
            info!(
                "requests to the API server are not limited: neither --kube-api-qps nor a configuration sets a rate above 0"
            );
        }
        if let (None, Some(burst)) = (rate, burst.filter(|burst| *burst > 0)) {
            warn!(
                "a burst of {burst} limits nothing without a rate: set --kube-api-qps or clientConnection.qps, too"
            );
        }
        LimitedCalls {
            writes: self.actions.limited(rate),
            events: self.actions.limited(rate),
        }
    }
}
