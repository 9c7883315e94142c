package logevent

import (
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Field is a field in log lines. It has the same type in every line, but the meaning of some fields, such as count and
// reason, depends on the event and is described in the event's row.
type Field struct {
	Key   string
	Type  Type
	Unit  string // "" if there is none
	Means string
}

// Type is the JSON type of a field's value.
type Type string

// Types of fields.
const (
	Text    Type = "string"
	List    Type = "array" // of strings
	Whole   Type = "integer"
	Decimal Type = "number"
)

const milliseconds = "ms"

// All fields. Fields whose values are empty strings or lists are omitted, unless their descriptions say that they may
// be empty.
var (
	action      = Field{"action", Text, "", "action of a uevent: `add`, `remove`, `change` …; or operation of an inotify event: `CREATE`, `REMOVE` …"}
	address     = Field{"address", Text, "", "listener address (`HOST:PORT`), or the API server's URL"}
	afu         = Field{"afu", Text, "", "ID of the AFU in the port, 32 hex digits; in `programming.*`, ID of the AFU that a container requests, or hash of an AOCX"}
	attribute   = Field{"attribute", Text, "", "identity attribute that changed: `resource`, `family`, `pci_id`, `afu`, `interface`, `nodes`, `shared_nodes`, `members`, `parent`, `parent_nodes`, `port_id`, `numa_node` (-1: not known)"}
	by          = Field{"by", Text, "", "user who cordoned or uncordoned a device, or ran `forget` for a card; the name isn't verified"}
	size        = Field{"bytes", Whole, "bytes", "size of a buffer or message"}
	claim       = Field{"claim", Text, "", "name of a ResourceClaim: `NAMESPACE/NAME`"}
	container   = Field{"container", Text, "", "container ID as used by the container runtime"}
	count       = Field{"count", Whole, "", "a number whose meaning depends on the event"}
	device      = Field{"device", Text, "", "device ID as sent to the kubelet by the device plugin, such as `3b:00.0` or `3b:00.0-p1`"}
	devices     = Field{"devices", List, "", "device IDs; if there are more than eight, the first eight followed by `and 3 more`"}
	digest      = Field{"digest", Text, "", "digest of a manifest in a registry: `sha256:…`"}
	devpath     = Field{"devpath", Text, "", "path of the uevent's device below /sys"}
	lostDebug   = Field{"dropped_debug", Whole, "", "number of dropped debug lines; missing if there are none"}
	lostError   = Field{"dropped_error", Whole, "", "number of dropped error lines; missing if there are none"}
	lostInfo    = Field{"dropped_info", Whole, "", "number of dropped info lines; missing if there are none"}
	lostWarn    = Field{"dropped_warn", Whole, "", "number of dropped warn lines; missing if there are none"}
	errorText   = Field{"error", Text, "", "text of an error"}
	expires     = Field{"expires", Text, "", "when a certificate expires (RFC 3339, UTC)"}
	family      = Field{"family", Text, "", "driver family, such as `dfl`"}
	flag        = Field{"flag", Text, "", "name of a setting, which is its flag without the dashes"}
	gone        = Field{"gone", List, "", "the `devices` that are no longer on the list or in the slices"}
	grace       = Field{"grace_ms", Decimal, milliseconds, "`--tombstone-grace`"}
	hash        = Field{"hash", Text, "", "first 12 hex digits of the SHA-256 of the `--config` file followed by the `--overrides` file; missing if there are no files"}
	health      = Field{"health", Text, "", "`healthy`, `degraded` or `unhealthy`"}
	holders     = Field{"holders", List, "", "containers that use a device (`NAMESPACE/POD/CONTAINER`); if there are more than eight, the first eight followed by `and 3 more`"}
	interfaceID = Field{"interface", Text, "", "interface ID of a region, 32 hex digits"}
	lasted      = Field{"lasted_ms", Decimal, milliseconds, "how long the previous state lasted, or how long the current one has lasted so far"}
	latency     = Field{"latency_ms", Decimal, milliseconds, "time since the uevent or inotify event that led to this line; missing if it was caused by a timer or the kubelet"}
	mode        = Field{"mode", Text, "", "the daemon's mode (see `--mode`)"}
	netlinkPort = Field{"netlink_port", Whole, "", "netlink port of the uevent's sender"}
	newValue    = Field{"new", Text, "", "value after a change; may be empty"}
	node        = Field{"node", Text, "", "name of a device node below /dev; in `daemon.started` and in events about the API server or settings, the Kubernetes node's name"}
	nodes       = Field{"nodes", List, "", "names of device nodes below /dev"}
	object      = Field{"object", Text, "", "Kubernetes API object: `Node/NAME`, `Pod/NAMESPACE/NAME`, `ResourceSlice/NAME`; in `recorder.*`, the object that the Event is about"}
	of          = Field{"of", Text, "", "the event whose lines were suppressed"}
	oldValue    = Field{"old", Text, "", "value before a change; may be empty"}
	owner       = Field{"owner", Text, "", "API that advertises the node's devices: `devicePlugin` or `dra`"}
	parent      = Field{"parent", Text, "", "name of the port's FME, such as `dfl-fme.0`"}
	path        = Field{"path", Text, "", "path of a file or directory"}
	pci         = Field{"pci", Text, "", "a card's address including the domain, such as `0000:3b:00.0`"}
	pid         = Field{"pid", Whole, "", "process ID of the daemon or of a forged uevent's sender"}
	podUIDs     = Field{"pod_uids", List, "", "UID of the pod in `holders`, if there is only one pod and the kubelet's checkpoint contains its UID"}
	reason      = Field{"reason", Text, "", "the cause, in words or as a fixed value, depending on the event"}
	reasons     = Field{"reasons", List, "", "reasons why a device isn't healthy (see [health.md](health.md)); may be empty"}
	reference   = Field{"reference", Text, "", "name of an artifact in a registry: `REGISTRY/NAME:TAG`, `REGISTRY/NAME@sha256:…`"}
	remaining   = Field{"remaining", Text, "", "how changes are still found while a source is lost"}
	resource    = Field{"resource", Text, "", "resource name, such as `b-com.com/accelerator`; always `accelerator.b-com.com` in the DRA driver's lines"}
	retry       = Field{"retry_ms", Decimal, milliseconds, "time until the next attempt"}
	rev         = Field{"rev", Whole, "", "version of the device snapshot"}
	seqnum      = Field{"seqnum", Whole, "", "the uevent's sequence number"}
	sliceCount  = Field{"slices", Whole, "", "number of the node's ResourceSlices"}
	socket      = Field{"socket", Text, "", "path of a Unix socket"}
	source      = Field{"source", Text, "", "source of a hint or of events: `uevent`, `inotify`; in `hint.received` also `overflow`, `malformed`, `reopen`, `sighup`; in `holders.*`, `pod-resources`, `checkpoint` or `claims`"}
	subsystem   = Field{"subsystem", Text, "", "subsystem of the uevent's device"}
	tainted     = Field{"tainted", Whole, "", "number of tainted devices in the node's ResourceSlices"}
	uid         = Field{"uid", Whole, "", "user ID of a forged uevent's sender"}
	until       = Field{"until", Text, "", "when a cordon expires (RFC 3339, UTC); missing if it doesn't expire"}
	unhealthy   = Field{"unhealthy", List, "", "the unhealthy devices among `devices`; if `devices` is missing, all unhealthy devices on the list or in the slices"}
	version     = Field{"version", Text, "", "version of the program"}
	why         = Field{"why", Text, "", "reason for a cordon, in the user's words"}
)

func Action(s string) zap.Field         { return action.text(s) }
func Address(s string) zap.Field        { return address.text(s) }
func AFU(id string) zap.Field           { return afu.text(id) }
func Attribute(name string) zap.Field   { return attribute.text(name) }
func By(name string) zap.Field          { return by.text(name) }
func Bytes(n int) zap.Field             { return zap.Int(size.Key, n) }
func Claim(name string) zap.Field       { return claim.text(name) }
func Container(id string) zap.Field     { return container.text(id) }
func Count(n int) zap.Field             { return zap.Int(count.Key, n) }
func Device(id string) zap.Field        { return device.text(id) }
func Devices(ids []string) zap.Field    { return devices.list(ids) }
func Digest(s string) zap.Field         { return digest.text(s) }
func Devpath(s string) zap.Field        { return devpath.text(s) }
func DroppedDebug(n int) zap.Field      { return lostDebug.some(n) }
func DroppedError(n int) zap.Field      { return lostError.some(n) }
func DroppedInfo(n int) zap.Field       { return lostInfo.some(n) }
func DroppedWarn(n int) zap.Field       { return lostWarn.some(n) }
func Expires(t time.Time) zap.Field     { return zap.String(expires.Key, t.UTC().Format(time.RFC3339)) }
func Family(name string) zap.Field      { return family.text(name) }
func Flag(s string) zap.Field           { return flag.text(s) }
func Gone(ids []string) zap.Field       { return gone.list(ids) }
func Grace(d time.Duration) zap.Field   { return grace.duration(d) }
func Hash(s string) zap.Field           { return hash.text(s) }
func Health(s string) zap.Field         { return health.text(s) }
func Holders(names []string) zap.Field  { return holders.list(Shorten(names)) }
func Interface(id string) zap.Field     { return interfaceID.text(id) }
func Lasted(d time.Duration) zap.Field  { return lasted.duration(d) }
func Latency(d time.Duration) zap.Field { return latency.duration(d) }
func Mode(s string) zap.Field           { return mode.text(s) }
func New(s string) zap.Field            { return zap.String(newValue.Key, s) }
func Node(name string) zap.Field        { return node.text(name) }
func Nodes(names []string) zap.Field    { return nodes.list(names) }
func Object(path string) zap.Field      { return object.text(path) }
func Of(event string) zap.Field         { return zap.String(of.Key, event) }
func Old(s string) zap.Field            { return zap.String(oldValue.Key, s) }
func Owner(api string) zap.Field        { return owner.text(api) }
func Parent(name string) zap.Field      { return parent.text(name) }
func Path(p string) zap.Field           { return path.text(p) }
func PCI(address string) zap.Field      { return pci.text(address) }
func PodUIDs(uids []string) zap.Field   { return podUIDs.list(Shorten(uids)) }
func PID(n int) zap.Field               { return zap.Int(pid.Key, n) }
func Port(n uint32) zap.Field           { return zap.Uint32(netlinkPort.Key, n) }
func Reason(s string) zap.Field         { return reason.text(s) }
func Reasons(r []string) zap.Field      { return zap.Strings(reasons.Key, r) }
func Reference(s string) zap.Field      { return reference.text(s) }
func Remaining(s string) zap.Field      { return remaining.text(s) }
func Resource(name string) zap.Field    { return resource.text(name) }
func Retry(d time.Duration) zap.Field   { return retry.duration(d) }
func Rev(n uint64) zap.Field            { return zap.Uint64(rev.Key, n) }
func Seqnum(n uint64) zap.Field         { return zap.Uint64(seqnum.Key, n) }
func Slices(n int) zap.Field            { return zap.Int(sliceCount.Key, n) }
func Socket(p string) zap.Field         { return socket.text(p) }
func Source(s string) zap.Field         { return source.text(s) }
func Subsystem(s string) zap.Field      { return subsystem.text(s) }
func Tainted(n int) zap.Field           { return zap.Int(tainted.Key, n) }
func UID(n int) zap.Field               { return zap.Int(uid.Key, n) }
func Unhealthy(ids []string) zap.Field  { return unhealthy.list(ids) }
func Version(s string) zap.Field        { return version.text(s) }
func Why(s string) zap.Field            { return why.text(s) }

// Until returns the field for a cordon's end, or a no-op field if t is zero.
func Until(t time.Time) zap.Field {
	if t.IsZero() {
		return zap.Skip()
	}
	return zap.String(until.Key, t.UTC().Format(time.RFC3339))
}

// Err returns the field for an error, or a no-op field if err is nil.
func Err(err error) zap.Field {
	if err == nil {
		return zap.Skip()
	}
	return zap.String(errorText.Key, err.Error()) // zap.Error may add more fields
}

func (f Field) text(value string) zap.Field {
	if value == "" {
		return zap.Skip()
	}
	return zap.String(f.Key, value)
}

func (f Field) list(values []string) zap.Field {
	if len(values) == 0 {
		return zap.Skip()
	}
	return zap.Strings(f.Key, values)
}

// maxNamed is the maximum number of names that Shorten keeps.
const maxNamed = 8

// Shorten returns the first maxNamed names, followed by "and N more" if there are more.
func Shorten(names []string) []string {
	if len(names) <= maxNamed {
		return names
	}
	return append(names[:maxNamed:maxNamed], fmt.Sprintf("and %d more", len(names)-maxNamed))
}

// some returns f with the value n, or a no-op field if n is 0.
func (f Field) some(n int) zap.Field {
	if n == 0 {
		return zap.Skip()
	}
	return zap.Int(f.Key, n)
}

func (f Field) duration(d time.Duration) zap.Field {
	return zap.Float64(f.Key, float64(d)/float64(time.Millisecond))
}
