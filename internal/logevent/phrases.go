package logevent

// Phrase returns the text with which the command logs shows an event, or "" for an event
// that is not in the catalogue.
//
//	{field}        the value; for a list its elements, for a field in ms a duration; none if it is missing or empty
//	{field noun}   a number with a noun: 1 device, 2 devices
//	{change}       the fields old and new: old → new, or still new if they are equal
//	{list}         the fields devices, unhealthy and gone: the health of each device on the list that was sent
//	[text]         is omitted if a field in it is missing, empty or a duration of 0
//	text | aside   asides follow in parentheses, and are omitted under the same conditions
//
// If lines of an event have different messages, the phrase has the {message}.
func Phrase(name string) string { return phrases[name] }

var phrases = map[string]string{
	DaemonStarted.String:   "daemon started, version {version}, mode {mode}[, node {node}]",
	DaemonStopping.String:  "daemon stopping: {reason}",
	DaemonStopped.String:   "daemon stopped",
	DaemonFailed.String:    "daemon failed: {error}",
	DaemonStarved.String:   "daemon out of descriptors or memory, devices keep their state: {error}",
	DaemonRecovered.String: "daemon has descriptors and memory again | after {lasted_ms}",
	Reloaded.String:        "SIGHUP: settings read[; excluded: {devices}] | {message}",
	ModeChanged.String:     "mode changed by the node's annotation: {change}",
	ConfigApplied.String:   "settings in force[: {hash}][; excluded: {devices}]",
	ConfigRefused.String:   "settings refused, the old ones stay in force: {error}",
	ConfigNotice.String:    "{message}[: --{flag}][: {devices}][: {reason}] | mode {mode} | node {node}",

	OwnerWaiting.String:     "{message}: {owner} | {reason} | {path} | for {lasted_ms} so far | for {retry_ms}",
	OwnerTaken.String:       "node taken: {owner} offers its devices | waited for {lasted_ms}",
	OwnerLeft.String:        "{message}: {owner}[: {error}]",
	OwnerUnavailable.String: "{message}: {error} | for {lasted_ms} so far",

	DeviceAdded.String:       "new, {health}[: {reasons}][; resource {resource}][; {error}] | noticed in {latency_ms}",
	DeviceHealth.String:      "{change}[: {reasons}][; held by {holders}][; {error}] | was {old} for {lasted_ms} | noticed in {latency_ms}",
	DeviceIdentity.String:    "changed: {attribute} {change}",
	DeviceUnoffered.String:   "not offered to the kubelet: {reason}",
	DeviceRemoved.String:     "gone[, held by {holders}] | was {old} for {lasted_ms} | noticed in {latency_ms}",
	DeviceHeld.String:        "given to {holders} | {reason}",
	DeviceFreed.String:       "free again after {lasted_ms} | held by {holders}",
	DeviceHeldTwice.String:   "{message}: {holders}",
	DeviceHeldOnce.String:    "{message}",
	DeviceTombstone.String:   "held[ by {holders}][ as {resource}]: stays listed as unhealthy until it is free",
	DeviceReturned.String:    "returned[, held by {holders}] | was gone for {lasted_ms}",
	DeviceReleased.String:    "released: {reason} | listed as unhealthy for {lasted_ms}",
	DeviceCordoned.String:    "cordoned by {by}[ until {until}]: {why} | {reason}",
	DeviceUncordoned.String:  "uncordoned[ by {by}]: {reason} | it was: {why}",
	CordonUnavailable.String: "{message}: {error}",
	HoldersUnknown.String:    "holders of devices unknown: {error} | source {source} | removed devices stay listed for {grace_ms}",
	HoldersKnown.String:      "holders of devices are known again | source {source}",

	ScanDone.String:      "first snapshot: {count device}",
	ScanFailed.String:    "{message}: {error} | {count time}",
	ScanRecovered.String: "{message} | after {count failure}",
	ReadTimeout.String:   "reading the card takes too long | {lasted_ms} so far",
	ReadRecovered.String: "reading the card ended | after {lasted_ms}",

	SourceOpened.String:    "source of events opened: {source}[ of {path}]",
	SourceLost.String:      "{message}: {source}[ of {path}]: {error}[; still works: {remaining}]",
	SourceRecovered.String: "source of events opened again: {source}[ of {path}]",
	UEventOverflow.String:  "uevents lost, all cards are read again | {count} still queued",
	InotifyOverflow.String: "inotify events lost below {path}, all cards are read again",
	UEventForged.String:    "{count uevent} dropped that the kernel did not send | pid of the sender: {pid}",
	UEventMalformed.String: "{count uevent} could not be parsed, all cards are read again: {error}",
	HintReceived.String:    "hint from {source}[ for {node}]",
	UEventReceived.String:  "uevent: {action} {devpath}[: {reason}] | subsystem {subsystem} | seqnum {seqnum}",
	InotifyEvent.String:    "inotify: {action}[ {node}][ {path}]",

	ResourceServed.String:     "serving the kubelet at {socket}",
	ResourceRegistered.String: "registered with the kubelet",
	RegisterFailed.String:     "registration failed: {error} | again in {retry_ms}",
	RegisterAbandoned.String:  "registration abandoned: {reason}",
	RegistrationEnded.String:  "registration ended: {reason} | again in {retry_ms}",
	ResourceRetired.String:    "retired: it has no devices",
	KubeletAbsent.String:      "waiting for the kubelet: {error}",
	KubeletRestarted.String:   "kubelet restarted, registering again",
	SocketLost.String:         "the plugin's socket was removed, registering again | in {retry_ms}",
	SocketRemoved.String:      "{message}: {socket}[: {error}]",
	SocketTwin.String:         "another daemon serves this node: {socket}",
	StreamOpened.String:       "stream opened by the kubelet",
	StreamClosed.String:       "stream to the kubelet closed: {reason} | open for {lasted_ms}",
	ListSent.String:           "list sent{list} | {count device} in all | {latency_ms} after the hint",

	AllocateServed.String:  "given to a container[: {devices}]",
	AllocateRefused.String: "refused to a container[: {devices}]: {reason}",
	CDIFailed.String:       "CDI spec could not be written, allocations are refused: {error}",
	CDIRecovered.String:    "CDI spec could be written again",

	DriverRegistered.String:  "driver registered by the kubelet",
	SlicesPublished.String:   "slices published{list} | {count device} in {slices slice}, {tainted} tainted | {latency_ms} after the hint",
	SlicesDeleted.String:     "{object} deleted by another client, writing it again",
	SlicesFailed.String:      "slices could not be written: {error}",
	TaintsUnsupported.String: "taints are not supported by the API server, unhealthy devices are left out of the slices[: {error}]",
	ClaimPrepared.String:     "prepared for claim {claim}: {devices} | {reason} | took {lasted_ms}",
	ClaimRefused.String:      "refused to claim {claim}[: {devices}]: {reason} | after {lasted_ms}",
	ClaimUnprepared.String:   "no longer prepared for claim {claim}[: {devices}]",
	ClaimForgotten.String:    "forgotten by the kubelet: no longer prepared for claim {claim}[: {devices}] | {reason}",
	ClaimUnchecked.String:    "could not look for forgotten claims: {error} | again in {retry_ms}",

	ProgrammingDone.String:    "programmed for a container: AFU {afu} | took {lasted_ms}",
	ProgrammingPresent.String: "already had the AFU of a container: {afu}",
	ProgrammingFailed.String:  "container not started: {error}",

	OperatorStarted.String:  "operator started, version {version}",
	OperatorStopped.String:  "operator stopped",
	OperatorFailed.String:   "operator failed: {error}",
	AdmissionMapped.String:  "names in {object} replaced by resources",
	AdmissionDenied.String:  "{object} denied: {reason}",
	AdmissionFailed.String:  "admission failed[ for {object}]: {error}",
	MappingPublished.String: "status of {object}: {reason}",
	PluginsPublished.String: "status of {object}: {reason}",
	CertificateMade.String:  "certificate made, valid until {expires} | CA in {object}",
	CAInjected.String:       "caBundle of {object} written: {count CA}, valid until {expires}",

	APILost.String:         "{message}: {error} | again in {retry_ms}",
	APIRetried.String:      "{message}: {error} | again in {retry_ms}",
	APIRecovered.String:    "API server answers again | after {lasted_ms}",
	EventsDropped.String:   "{count Kubernetes Event} dropped, there were too many",
	EventsAnonymous.String: "{message}: {error}",
	EventFailed.String:     "Kubernetes Event given up: {reason} about {object}[: {error}]",
	EventRecorded.String:   "Kubernetes Event written: {reason} about {object} | {count time}",
	HTTPServed.String:      "HTTP served at {address}",
	HTTPFailed.String:      "{message}: {error} | again in {retry_ms} | {address}",
	ControlServed.String:   "local socket served at {socket}",
	ControlFailed.String:   "{message}: {error} | again in {retry_ms} | {socket}",
	ControlRefused.String:  "connection refused at {socket}: {error}",

	LogLevel.String:      "log level: {change}",
	LogSuppressed.String: "{count line} of {of} suppressed, there were too many | in {lasted_ms}",
	LogDropped.String:    "{count line} of the log dropped here, its reader stalled or failed[: {error}] | in {lasted_ms}",
	LibraryLog.String:    "{message}",
}
