//! Feature gates of Kubernetes.

use super::values::boolean;

/// Feature gates of Kubernetes 1.36 and 1.37 that concern its scheduler, and whether they are on here.
pub(super) static GATES: [(&str, bool); 44] = [
    ("AllAlpha", false),
    ("AllBeta", false),
    ("CSIStorageCapacity", true),
    ("ComponentFlagz", false),
    ("ComponentStatusz", false),
    ("CoordinatedLeaderElection", false),
    ("DRAAdminAccess", true),
    ("DRAConsumableCapacity", false),
    ("DRADeviceBindingConditions", false),
    ("DRADeviceTaintRules", false),
    ("DRADeviceTaints", true),
    ("DRAExtendedResource", false),
    ("DRAListTypeAttributes", false),
    ("DRANodeAllocatableResources", false),
    ("DRAPartitionableDevices", false),
    ("DRAPrioritizedList", true),
    ("DRAResourceClaimDeviceStatus", false),
    ("DRASchedulerFilterTimeout", false),
    ("DRAWorkloadResourceClaims", false),
    ("DynamicResourceAllocation", true),
    ("GangScheduling", true),
    ("GenericWorkload", true),
    ("InPlacePodLevelResourcesVerticalScaling", false),
    ("InPlacePodVerticalScaling", true),
    ("MatchLabelKeysInPodAffinity", true),
    ("MatchLabelKeysInPodTopologySpread", true),
    ("MutableCSINodeAllocatableCount", true),
    ("NodeDeclaredFeatures", true),
    ("NodeInclusionPolicyInPodTopologySpread", true),
    ("NominatedNodeNameForExpectation", false),
    ("OpportunisticBatching", true),
    ("PodLevelResources", true),
    ("PodSchedulingReadiness", true),
    ("SchedulerAsyncAPICalls", true),
    ("SchedulerAsyncPreemption", true),
    ("SchedulerPopFromBackoffQ", true),
    ("SchedulerQueueingHints", true),
    ("SidecarContainers", true),
    ("StorageCapacityScoring", false),
    ("TaintTolerationComparisonOperators", false),
    ("TopologyAwareWorkloadScheduling", true),
    ("VolumeAttributesClass", true),
    ("VolumeLimitScaling", false),
    ("WorkloadAwarePreemption", true),
];

/// The other gates of Kubernetes 1.36. Often all components of a cluster get the same list of gates. kube-scheduler ignores these,
/// too.
const OTHERS: &str = "
    APIResponseCompression APIServerIdentity APIServerTracing APIServingWithRoutine AggregatedDiscoveryRemoveBetaType
    AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests AllowOverwriteTerminationGracePeriodSeconds
    AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs AllowUnsafeMalformedObjectDeletion
    AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AtomicFIFO AuthorizeNodeWithSelectors
    AuthorizePodWebsocketUpgradeCreatePermission AuthorizeWithSelectors BtreeWatchCache CBORServingAndStorage
    CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CPUManagerPolicyOptions CRDObservedGenerationTracking
    CRDValidationRatcheting CRIListStreaming CSIServiceAccountTokenSecrets CSIVolumeHealth
    ChangeContainerStatusOnKubeletRestart ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation
    ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
    CloudControllerManagerWebhook ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
    ConsistentListFromCache ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContainerStopSignals
    ContextualLogging ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource
    CustomCPUCFSQuotaPeriod CustomResourceFieldSelectors DRAResourceClaimGranularStatusAuthorization
    DRAResourcePoolStatus DeclarativeValidation DeclarativeValidationBeta DeclarativeValidationTakeover
    DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DisableAllocatorDualWrite
    DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion EnvFiles EventedPLEG ExecProbeTimeout
    ExtendWebSocketsToKubelet ExternalServiceAccountTokenSigner GitRepoVolumeDriver GracefulNodeShutdown
    GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HPAScaleToZero HostnameOverride ImageMaximumGCAge
    ImageVolume ImageVolumeWithDigest InOrderInformers InOrderInformersBatchProcess
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
    InPlacePodVerticalScalingInitContainers InformerResourceVersion JobBackoffLimitPerIndex JobManagedBy
    JobPodReplacementPolicy JobSuccessPolicy KMSv1 KubeletCgroupDriverFromCRI KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz KubeletInUserNamespace KubeletPSI
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletPodResourcesListUseActivePods
    KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
    KubeletTracing ListFromCacheSnapshot LocalStorageCapacityIsolationFSQuotaMonitoring LogarithmicScaleDown
    LoggingAlphaOptions LoggingBetaOptions LoggingStableOptions ManifestBasedAdmissionControlConfig
    MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS MultiCIDRServiceAllocator
    MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
    MutatingAdmissionPolicy NFTablesProxyMode NativeHistograms NodeLogQuery NodeSwap OpenAPIEnums
    OrderedNamespaceDeletion PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI
    PodCertificateRequest PodDeletionCost PodLevelResourceManagers PodLifecycleSleepAction
    PodLifecycleSleepActionAllowZero PodLogsQuerySplitStreams PodObservedGenerationTracking
    PodReadyToStartContainersCondition PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets
    PreferSameTrafficDistribution PreventStaticPodAPIReferences ProcMountType QOSReserved
    RecoverVolumeExpansionFailure RecursiveReadOnlyMounts ReduceDefaultCrashLoopBackOffDecay
    RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResilientWatchCacheInitialization ResourceHealthStatus
    ResourceHealthStatusMessage RestartAllContainersOnContainerExits RetryGenerateName RotateKubeletServerCertificate
    RuntimeClassInImageCriApi SELinuxChangePolicy SELinuxMount SELinuxMountReadWriteOncePod SeparateCacheWatchRPC
    SeparateTaintEvictionController ServiceAccountNodeAudienceRestriction ServiceAccountTokenJTI
    ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
    ServiceCIDRStatusFieldWiping ShardedListAndWatch SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet
    StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
    StatefulSetSemanticRevisionComparison StorageNamespaceIndex StorageVersionAPI StorageVersionHash
    StorageVersionMigrator StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
    StrictIPCIDRValidation StructuredAuthenticationConfiguration StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics SupplementalGroupsPolicy TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions
    TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
    UnlockWhileProcessingFIFO UserNamespacesHostNetworkSupport UserNamespacesSupport
    WatchCacheInitializationPostStartHook WatchList WatchListClient WinDSR WinOverlay WindowsCPUAndMemoryAffinity
    WindowsGracefulNodeShutdown WindowsHostNetwork WorkloadWithJob
";

/// Parses `Name=true`, or `kube:Name=true` with the name of a component.
pub(super) fn gate(text: &str) -> Result<(String, bool), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("Name=true or Name=false is needed")?;
    let name = name.trim();
    let name = name.strip_prefix("kube:").unwrap_or(name);
    let value = boolean(value.trim())?;
    let known = || {
        let others = OTHERS.split_whitespace();
        GATES.iter().map(|(known, _)| *known).chain(others)
    };
    if known().any(|known| known == name) {
        return Ok((name.to_owned(), value));
    }
    let known = known();
    let nearest = evictd_spelling::nearest(name, known);
    Err(format!(
        "there is no such gate; the nearest is {}",
        nearest.unwrap_or_default()
    ))
}

/// A warning for each gate that cannot be set this way. The last setting of a gate counts.
pub(super) fn warnings(set: &[(String, bool)]) -> impl Iterator<Item = String> {
    GATES.iter().filter_map(|(name, here)| {
        let (_, value) = set.iter().rev().find(|(gate, _)| gate == name)?;
        let is = if *here { "on" } else { "off" };
        (value != here).then(|| {
            format!("--feature-gates {name}={value} changes nothing: it is always {is} here")
        })
    })
}
