//! Objects of batch.volcano.sh and flow.volcano.sh that create jobs. The definitions of the custom resources are generated
//! from these types.

mod cron_job;
mod job_flow;

pub use cron_job::{ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, JobReference};
pub use job_flow::{
    Flow, FlowCondition, FlowDependsOn, FlowJobStatus, JobFlow, JobFlowPhase, JobFlowSpec,
    JobFlowState, JobFlowStatus, JobTemplate, JobTemplateStatus, RunningHistory,
};
