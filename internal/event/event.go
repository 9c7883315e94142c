package event

import (
	"time"

	"go.uber.org/zap"
)

func name(s string) zap.Field { return zap.String("event", s) }

// Names of events. Each log line carries exactly one.
var (
	DaemonStarted  = name("daemon.started")
	DaemonStopping = name("daemon.stopping")
	DaemonStopped  = name("daemon.stopped")
	DaemonFailed   = name("daemon.failed")
	ConfigNotice   = name("config.notice") // a setting that does not do what one might think
	Reloaded       = name("daemon.reload") // SIGHUP
	ConfigRefused  = name("config.refused")
	ModeChanged    = name("mode.changed") // the node's annotation asks for another one

	DeviceAdded     = name("device.added")
	DeviceRemoved   = name("device.removed")
	DeviceHealth    = name("device.health")
	DeviceIdentity  = name("device.identity")  // AFU, interface, node … of a device that stayed
	DeviceTombstone = name("device.tombstone") // gone, but held
	DeviceReturned  = name("device.returned")
	DeviceReleased  = name("device.released")  // gone, and held no longer
	DeviceUnoffered = name("device.unoffered") // it lacks what it would be offered by
	HoldersUnknown  = name("holders.unknown")
	HoldersKnown    = name("holders.known")
	HintReceived    = name("hint.received")
	ScanDone        = name("scan.done")
	ScanFailed      = name("scan.failed")
	ScanRecovered   = name("scan.recovered")
	ReadTimeout     = name("read.timeout")
	ReadRecovered   = name("read.recovered")

	UEventReceived  = name("uevent.received")
	UEventMalformed = name("uevent.malformed")
	UEventForged    = name("uevent.forged")
	UEventOverflow  = name("uevent.overflow")
	InotifyEvent    = name("inotify.event")
	InotifyOverflow = name("inotify.overflow")
	SourceOpened    = name("source.opened")
	SourceLost      = name("source.lost")
	SourceRecovered = name("source.recovered")

	ResourceServed     = name("resource.served") // listening, about to register
	ResourceRegistered = name("resource.registered")
	ResourceRetired    = name("resource.retired")
	RegisterFailed     = name("register.failed")
	RegisterAbandoned  = name("register.abandoned")
	RegistrationEnded  = name("registration.ended") // asked to, or the kubelet ended its stream
	KubeletRestarted   = name("kubelet.restarted")
	KubeletAbsent      = name("kubelet.absent")
	SocketLost         = name("socket.lost")
	SocketRemoved      = name("socket.removed") // a leftover of an earlier run
	SocketTwin         = name("socket.twin")    // another daemon serves this directory
	StreamOpened       = name("stream.opened")
	StreamClosed       = name("stream.closed")
	ListSent           = name("list.sent")
	AllocateServed     = name("allocate.served")
	AllocateRefused    = name("allocate.refused")
	CDIFailed          = name("cdi.failed") // its spec file cannot be written
	CDIRecovered       = name("cdi.recovered")

	APILost      = name("api.lost")
	APIRetried   = name("api.retried")
	APIRecovered = name("api.recovered")

	HTTPServed = name("http.served")
	HTTPFailed = name("http.failed")
	LibraryLog = name("library.log") // a line of grpc
)

// Fields. A text or list that is empty is left out.

func text(key, value string) zap.Field {
	if value == "" {
		return zap.Skip()
	}
	return zap.String(key, value)
}

func list(key string, values []string) zap.Field {
	if len(values) == 0 {
		return zap.Skip()
	}
	return zap.Strings(key, values)
}

func Device(id string) zap.Field        { return text("device", id) }
func Devices(ids []string) zap.Field    { return list("devices", ids) }
func PCI(address string) zap.Field      { return text("pci", address) }
func Family(name string) zap.Field      { return text("family", name) }
func Resource(name string) zap.Field    { return text("resource", name) }
func Old(s string) zap.Field            { return zap.String("old", s) }
func New(s string) zap.Field            { return zap.String("new", s) }
func Attribute(name string) zap.Field   { return text("attribute", name) }
func Health(s string) zap.Field         { return text("health", s) }
func Reasons(r []string) zap.Field      { return zap.Strings("reasons", r) }
func AFU(id string) zap.Field           { return text("afu", id) }
func Interface(id string) zap.Field     { return text("interface", id) }
func Holders(names []string) zap.Field  { return list("holders", names) } // namespace/pod/container
func Node(name string) zap.Field        { return text("node", name) }
func Nodes(names []string) zap.Field    { return list("nodes", names) }
func Parent(name string) zap.Field      { return text("parent", name) }
func Source(s string) zap.Field         { return text("source", s) }
func Action(s string) zap.Field         { return text("action", s) }
func Subsystem(s string) zap.Field      { return text("subsystem", s) }
func Devpath(s string) zap.Field        { return text("devpath", s) }
func Seqnum(n uint64) zap.Field         { return zap.Uint64("seqnum", n) }
func Rev(n uint64) zap.Field            { return zap.Uint64("rev", n) } // snapshot version
func Count(n int) zap.Field             { return zap.Int("count", n) }
func Bytes(n int) zap.Field             { return zap.Int("bytes", n) }
func Path(p string) zap.Field           { return text("path", p) }
func Socket(p string) zap.Field         { return text("socket", p) }
func Address(a string) zap.Field        { return text("address", a) }
func Reason(s string) zap.Field         { return text("reason", s) }
func Flag(s string) zap.Field           { return text("flag", s) }
func Mode(s string) zap.Field           { return text("mode", s) }
func Version(s string) zap.Field        { return text("version", s) }
func PID(n int) zap.Field               { return zap.Int("pid", n) }
func UID(n int) zap.Field               { return zap.Int("uid", n) }
func Port(n uint32) zap.Field           { return zap.Uint32("netlink_port", n) }
func Remaining(s string) zap.Field      { return text("remaining", s) } // what still works
func Grace(d time.Duration) zap.Field   { return zap.Float64("grace_ms", float64(d)/1e6) }
func Retry(d time.Duration) zap.Field   { return zap.Float64("retry_ms", float64(d)/1e6) }
func Lasted(d time.Duration) zap.Field  { return zap.Float64("lasted_ms", float64(d)/1e6) }
func Latency(d time.Duration) zap.Field { return zap.Float64("latency_ms", float64(d)/1e6) }
func Err(err error) zap.Field           { return zap.Error(err) }
