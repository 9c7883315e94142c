package logevent

import "go.uber.org/zap"

func name(s string) zap.Field { return zap.String(key, s) }

// key is the key of the field that names the event.
const key = "event"

// Names of events. Each log line has exactly one; [Events] has their descriptions.
var (
	DaemonStarted   = name("daemon.started")
	DaemonStopping  = name("daemon.stopping")
	DaemonStopped   = name("daemon.stopped")
	DaemonFailed    = name("daemon.failed")
	DaemonStarved   = name("daemon.starved")
	DaemonRecovered = name("daemon.recovered")
	ConfigNotice    = name("config.notice")
	Reloaded        = name("daemon.reload")
	ConfigApplied   = name("config.applied")
	ConfigRefused   = name("config.refused")
	ModeChanged     = name("mode.changed")

	OwnerWaiting     = name("owner.waiting")
	OwnerTaken       = name("owner.taken")
	OwnerLeft        = name("owner.left")
	OwnerUnavailable = name("owner.unavailable")

	DeviceAdded       = name("device.added")
	DeviceRemoved     = name("device.removed")
	DeviceHealth      = name("device.health")
	DeviceIdentity    = name("device.identity")
	DeviceTombstone   = name("device.tombstone")
	DeviceReturned    = name("device.returned")
	DeviceReleased    = name("device.released")
	DeviceHeld        = name("device.held")
	DeviceFreed       = name("device.freed")
	DeviceHeldTwice   = name("device.held-twice")
	DeviceHeldOnce    = name("device.held-once")
	DeviceUnoffered   = name("device.unoffered")
	DeviceCordoned    = name("device.cordoned")
	DeviceUncordoned  = name("device.uncordoned")
	CordonUnavailable = name("cordon.unavailable")
	DeviceMissing     = name("device.missing")
	CardForgotten     = name("card.forgotten")
	LedgerBegun       = name("ledger.begun")
	LedgerUnavailable = name("ledger.unavailable")
	HoldersUnknown    = name("holders.unknown")
	HoldersKnown      = name("holders.known")
	HintReceived      = name("hint.received")
	ScanDone          = name("scan.done")
	ScanFailed        = name("scan.failed")
	ScanRecovered     = name("scan.recovered")
	ReadTimeout       = name("read.timeout")
	ReadRecovered     = name("read.recovered")

	UEventReceived  = name("uevent.received")
	UEventMalformed = name("uevent.malformed")
	UEventForged    = name("uevent.forged")
	UEventOverflow  = name("uevent.overflow")
	InotifyEvent    = name("inotify.event")
	InotifyOverflow = name("inotify.overflow")
	SourceOpened    = name("source.opened")
	SourceLost      = name("source.lost")
	SourceRecovered = name("source.recovered")

	ResourceServed     = name("resource.served")
	ResourceRegistered = name("resource.registered")
	ResourceRetired    = name("resource.retired")
	RegisterFailed     = name("register.failed")
	RegisterAbandoned  = name("register.abandoned")
	RegistrationEnded  = name("registration.ended")
	KubeletRestarted   = name("kubelet.restarted")
	KubeletAbsent      = name("kubelet.absent")
	SocketLost         = name("socket.lost")
	SocketRemoved      = name("socket.removed")
	SocketTwin         = name("socket.twin")
	StreamOpened       = name("stream.opened")
	StreamClosed       = name("stream.closed")
	ListSent           = name("list.sent")
	AllocateServed     = name("allocate.served")
	AllocateRefused    = name("allocate.refused")
	CDIFailed          = name("cdi.failed")
	CDIRecovered       = name("cdi.recovered")

	SlicesPublished   = name("slices.published")
	SlicesDeleted     = name("slices.deleted")
	SlicesFailed      = name("slices.failed")
	TaintsUnsupported = name("taints.unsupported")
	DriverRegistered  = name("driver.registered")
	ClaimPrepared     = name("claim.prepared")
	ClaimRefused      = name("claim.refused")
	ClaimUnprepared   = name("claim.unprepared")
	ClaimForgotten    = name("claim.forgotten")
	ClaimUnchecked    = name("claim.unchecked")
	ClaimStatusFailed = name("claim.status-failed")
	StoreFailed       = name("store.failed")

	ProgrammingDone    = name("programming.done")
	ProgrammingPresent = name("programming.present")
	ProgrammingFailed  = name("programming.failed")

	OperatorStarted  = name("operator.started")
	OperatorStopped  = name("operator.stopped")
	OperatorFailed   = name("operator.failed")
	AdmissionMapped  = name("admission.mapped")
	AdmissionDenied  = name("admission.denied")
	AdmissionFailed  = name("admission.failed")
	MappingPublished = name("mapping.published")
	PluginsPublished = name("plugins.published")
	CertificateMade  = name("certificate.made")
	CAInjected       = name("ca.injected")

	APILost      = name("api.lost")
	APIRetried   = name("api.retried")
	APIRecovered = name("api.recovered")

	ConditionChanged = name("condition.changed")

	EventsDropped   = name("recorder.dropped")
	EventsAnonymous = name("recorder.anonymous")
	EventFailed     = name("recorder.failed")
	EventRecorded   = name("recorder.recorded")

	HTTPServed     = name("http.served")
	HTTPFailed     = name("http.failed")
	ControlServed  = name("control.served")
	ControlFailed  = name("control.failed")
	ControlRefused = name("control.refused")

	LogLevel      = name("log.level")
	LogDropped    = name("log.dropped")
	LogSuppressed = name("log.suppressed")
	LibraryLog    = name("library.log")
)

// EndedByUs is the reason of a stream.closed that the daemon has caused, because it ends or registers
// again.
const EndedByUs = "ended by us"
