package redact

import (
	"regexp"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/docs"
	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Regular expressions for values.
const (
	pciForm  = `([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]`
	vbnvForm = `xilinx_[a-z0-9_]{1,60}`
	nodeForm = `(dfl|intel-fpga)-(port|fme)\.[0-9]{1,5}|vfio/[0-9]{1,5}|vfio/(devices/vfio|noiommu-)[0-9]{1,5}|iommu|vfio/vfio|dri/renderD[0-9]{1,5}|xclmgmt[0-9]{1,9}|xfpga/dma\.qdma\.u[0-9]{1,9}\.0`
)

var (
	id      = text(pciForm + `(-p[0-9])?|[0-9]{1,5}`) // device ID; in pool mode, it is a number
	ids     = list(anyOf(id, text(`and [0-9]{1,9} more`)))
	pci     = text(pciForm)
	pciIDs  = text(`[0-9a-f]{4}(:[0-9a-f]{4})?`)
	hex     = text(`[0-9a-f]{32}`)
	nodes   = list(text(`(/dev/)?(` + nodeForm + `)`))
	when    = text(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})`)
	health  = words("healthy", "degraded", "unhealthy")
	family  = words("dfl", "opae", "vfio", "xrt", "aws")
	mode    = words("single", "af", "region", "regiondevel", "pool")
	api     = words("devicePlugin", "dra")
	release = text(`v?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(-dev|-rc\.[0-9]{1,4})?(\+([0-9a-f]{7,40}|dirty|[0-9a-f]{7,40}\.dirty))?|` +
		// Up to 0.2.0, versions were the output of `git describe`.
		`v?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(-[0-9]{1,6}-g[0-9a-f]{7,40})?(-dirty)?|[0-9a-f]{7,40}(-dirty)?|\(devel\)`)
	names   = strings.Join(docs.Names(), "|")
	reason  = text(`((` + names + `)=)?(` + names + `)(=[A-Za-z0-9_.:/-]{1,60})?`)
	holders = list(anyOf(text(`and [0-9]{1,9} more`), alias("container")))
	free    = words() // text that someone wrote, which is removed
	chip    = text(`|[a-z0-9]{1,20}bmc_hwmon(-[0-9]{1,2})?|dfl_fme_(thermal|power)(-[0-9]{1,2})?|(thermal|power)_mgmt(-[0-9]{1,2})?|hwmon(-[0-9]{1,2})?|` + vbnvForm)
	label   = text(`die|hottest|board|(temp|in|curr|power)[0-9]{1,4}|temperature|consumed|[A-Za-z0-9][A-Za-z0-9 .,#&()/_-]{0,50} (Temperature|Voltage|Current|Power)( ?#[0-9]{1,2}| \[Remote\])?`) // a sensor's name
	seconds = text(`([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,6}`)
)

// offered is the shape of a resource name. It keeps a name that the program chose, and replaces a name chosen by an
// administrator with an alias.
func offered(r *Redactor, v any) (any, bool) {
	if name, _ := v.(string); chosen.MatchString(name) {
		return name, true
	}
	return alias("resource")(r, v)
}

const driver = "accelerator.b-com.com"

var chosen = regexp.MustCompile(`^(b-com\.com/accelerator|accelerator\.b-com\.com|fpga\.intel\.com/region-[0-9a-f]{32}|` +
	`fpga\.intel\.com/af-[0-9a-f]{3}\.[0-9a-f]{3}\.[0-9A-Za-z_-]{43}|amd\.com/` + vbnvForm + `-[0-9]{1,16})$`)

// attributes is the shape of a device's family-specific attributes.
var attributes = object(map[string]Shape{
	"physicalFunction": pci, "virtualFunction": text(`[0-9]{1,5}`), "iommuGroup": text(`[0-9]{1,9}`), "slot": text(`[0-9]{1,5}`),
	"vbnv": text(vbnvForm), "timestamp": text(`(0x)?[0-9a-f]{1,16}`), "bitstreamId": text(`0x[0-9a-f]{1,16}`),
})

var cordon = object(map[string]Shape{"device": id, "by": free, "why": free, "since": when, "until": when})

// Rows is the shape of the output of `devices -o json`.
var Rows = list(object(map[string]Shape{
	"id": id, "resource": offered, "family": family, "health": health, "reasons": list(reason), "pciAddress": pci, "pciVendor": pciIDs, "pciDevice": pciIDs,
	"numaNode": number, "portId": number, "afuId": hex, "interfaceId": hex, "deviceNodes": nodes, "parent": text(nodeForm),
	"holder": holders, "holderUids": list(alias("pod")), "holderKnown": boolean, "held": boolean,
	"nodeNumbers": list(text(`[0-9]{1,7}:[0-9]{1,7}`)), "parentNodes": nodes, "cordon": cordon, "missingSince": when, "pciId": pciIDs, "subsystem": pciIDs,
	"attributes": attributes, "sensors": list(object(map[string]Shape{
		"chip": chip, "sensor": label, "of": label, "kind": words("temperature", "power", "voltage", "current"),
		"value": number, "max": number, "crit": number,
	})),
	"members": list(pci), "sharedNodes": nodes, "mounts": list(text(`/sys/(bus/pci/devices|devices/pci[0-9a-f]{4}:[0-9a-f]{2})(/` + pciForm + `){1,8}/resource[0-9](_wc)?`)),
}))

// State is the shape of the output of `devices -o state`: devices, cordons, and the ledger.
var State = object(map[string]Shape{
	"version": release, "api": api, "pid": number, "started": when, "mode": mode, "kubeletDir": words("/var/lib/kubelet/device-plugins"),
	"settings":     object(map[string]Shape{"hash": text(`[0-9a-f]{12}`), "applied": when, "refused": phrasesOf, "restart": list(free)}),
	"holdersError": phrasesOf, "stateDirError": phrasesOf, "cordons": list(cordon), "idleRules": list(free), "devices": Rows, "incomplete": boolean,
	"verdict": object(map[string]Shape{
		"status": words("good", "bad", "unknown"), "since": when, "faulty": ids, "message": phrasesOf,
		"reason": words("NoFault", "CardFault", "CardMissing", "NoCards", "NotRead", "NotChecked", "Recovering", "NotAdvertised"),
	}),
	"cards": list(object(map[string]Shape{
		"card": id, "healthChanges": number, "failures": number, "removals": number, "lastRemoved": when,
		"recent": list(object(map[string]Shape{"time": when, "device": id, "from": health, "to": health, "reason": reason, "ofCard": boolean})),
		"former": object(map[string]Shape{"pciId": pciIDs, "serial": free, "firstSeen": when, "lastSeen": when, "healthChanges": number, "removals": number}),
	})),
})

// settings contains the keys of the settings files, except for keys whose values can have any form, such as paths.
var settings = func() map[string]Shape {
	all := map[string]Shape{
		"families": anyOf(list(family), text(`((dfl|opae|vfio|xrt|aws)(, ?)?){1,5}`)), "mode": mode, "allocationPolicy": words("packed", "spread"),
		"logLevel": words("debug", "info", "warn", "error"), "logFormat": words("json", "console"), "sensors": words("none", "main", "all"), "resourceName": offered,
		"exclude": list(id), "health": object(map[string]Shape{"severity": mapping(reason, words("fatal", "degraded", "ignored"))}),
		"resources": list(object(map[string]Shape{"name": offered, "match": object(map[string]Shape{
			"family": family, "pciAddress": pci, "physicalFunction": pci, "afuId": text(`[0-9a-f-]{32,36}`), "interfaceId": text(`[0-9a-f-]{32,36}`),
			"vendor": pciIDs, "pciVendor": pciIDs, "device": pciIDs, "pciDevice": pciIDs, "subsystem": pciIDs, "virtualFunction": anyOf(number, text(`[0-9]{1,5}`)),
			"vbnv": text(vbnvForm),
		})})),
	}
	for _, key := range switches {
		all[key] = boolean
	}
	for _, key := range numbers {
		all[key] = anyOf(number, seconds)
	}
	return all
}()

var (
	switches = []string{"vfioCdev", "xrtManagement", "nodeAnnotation", "events", "holderMetrics"}
	numbers  = []string{"accelNbunits", "resyncInterval", "healthInterval", "recoveryHold", "tombstoneGrace", "reprogramTimeout", "flapLimit", "flapWindow", "sensorInterval"}
)

// Settings is the shape of a settings file. Of the entries for individual nodes, it keeps only the one for the bundle's
// node.
func Settings(r *Redactor, v any) (any, bool) {
	all := map[string]Shape{"nodes": mapping(func(r *Redactor, name any) (any, bool) {
		if name == r.node {
			return "this node", true
		}
		return Removed, true
	}, object(settings))}
	for key, shape := range settings {
		all[key] = shape
	}
	return object(all)(r, v)
}

// ConfigMap is the shape of a ConfigMap that contains settings files.
var ConfigMap = object(map[string]Shape{"data": object(map[string]Shape{"config.yaml": yamlText(Settings), "overrides.yaml": yamlText(Settings)})})

// logLine is the shape of a log line (docs/log-events.md). It leaves out the message, because the event says the same
// thing.
var logLine = func() Shape {
	all := map[string]Shape{
		"time": when, "level": words("debug", "info", "warn", "error"), "event": event,
		"action": text(`(add|remove|change|bind|unbind|move|online|offline|CREATE|REMOVE|WRITE|RENAME|CHMOD|\|)+`), "afu": hex, "interface": hex,
		"attribute": words("resource", "family", "pci_id", "afu", "interface", "nodes", "shared_nodes", "members", "parent", "parent_nodes", "port_id", "numa_node"),
		"claim":     alias("claim"), "container": alias("container-id"), "device": id, "devices": ids, "error": phrasesOf, "expires": when, "family": family,
		"gone": ids, "hash": text(`[0-9a-f]{12}`), "health": health, "holders": holders, "mode": mode, "new": anyOf(health, mode, reason, hex), "node": text(nodeForm), "nodes": nodes,
		"of": event, "old": anyOf(health, mode, reason, hex), "owner": api, "parent": text(nodeForm), "pci": pci, "pod_uids": list(alias("pod")),
		"reason": anyOf(reason, phrasesOf), "reasons": list(reason), "remaining": phrasesOf, "resource": offered,
		"source": words("uevent", "inotify", "overflow", "malformed", "reopen", "sighup"), "unhealthy": ids, "until": when, "version": release,
	}
	for _, f := range logevent.Fields() {
		switch {
		case f.Type == logevent.Whole || f.Type == logevent.Decimal:
			all[f.Key] = number
		case all[f.Key] == nil && f.Type == logevent.Text:
			all[f.Key] = free
		}
	}
	return object(all)
}()

// why is the shape of a container's reason for waiting or ending.
var why = words("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ContainerCreating", "PodInitializing",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "OOMKilled", "Error", "Completed", "ContainerCannotRun", "StartError",
	"DeadlineExceeded", "Evicted", "NodeAffinity", "OutOfpods", "OutOfcpu", "OutOfmemory", "UnexpectedAdmissionError", "NodeLost", "Terminated")

var (
	status    = words("True", "False", "Unknown")
	quantity  = anyOf(number, text(`[0-9]{1,20}(\.[0-9]{1,9})?([mnuKMGTPE]i?)?`))
	container = func() Shape {
		state := object(map[string]Shape{
			"running": object(map[string]Shape{"startedAt": when}), "waiting": object(map[string]Shape{"reason": why, "message": phrasesOf}),
			"terminated": object(map[string]Shape{"exitCode": number, "signal": number, "reason": why, "message": phrasesOf, "startedAt": when, "finishedAt": when}),
		})
		return object(map[string]Shape{"name": ours, "ready": boolean, "started": boolean, "restartCount": number, "state": state, "lastState": state})
	}()
	ours      = words("accelerator-device-plugin", "install-accelerator-fpga")
	amounts   = mapping(words("cpu", "memory", "ephemeral-storage"), quantity)
	condition = object(map[string]Shape{
		"type":   words("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Initialized", "ContainersReady", "PodScheduled", "PodReadyToStartContainers", "DisruptionTarget", driver+"/CardsHealthy"),
		"status": status, "lastTransitionTime": when, "lastHeartbeatTime": when, "lastProbeTime": when, "message": phrasesOf,
	})
)

var Pod = object(map[string]Shape{
	"metadata": object(map[string]Shape{"uid": alias("pod"), "creationTimestamp": when, "deletionTimestamp": when}),
	"spec": object(map[string]Shape{
		"containers": list(object(map[string]Shape{"name": ours, "resources": object(map[string]Shape{"limits": amounts, "requests": amounts})})),
	}),
	"status": object(map[string]Shape{
		"phase": words("Pending", "Running", "Succeeded", "Failed", "Unknown"), "reason": why, "message": phrasesOf, "startTime": when,
		"conditions": list(condition), "containerStatuses": list(container), "initContainerStatuses": list(container),
	}),
})

// Node is the shape of a Node object. A resource keeps its alias if it was given one when another part of the report
// was redacted. Other resources whose names an administrator chose are left out.
var Node = func() Shape {
	known := func(r *Redactor, v any) (any, bool) {
		name, _ := v.(string)
		if as := r.aliases["resource "+name]; as != "" {
			return as, true
		}
		if slices.Contains([]string{"cpu", "memory", "ephemeral-storage", "pods"}, name) || chosen.MatchString(name) {
			return name, true
		}
		return Removed, true
	}
	amounts := mapping(known, quantity)
	version := text(`[A-Za-z]{0,20}(://)?v?[0-9]{1,4}\.[0-9]{1,4}[0-9a-zA-Z.+~-]{0,60}`)
	return object(map[string]Shape{
		"metadata": object(map[string]Shape{"creationTimestamp": when, "deletionTimestamp": when}),
		"spec": object(map[string]Shape{"unschedulable": boolean, "taints": list(object(map[string]Shape{
			"key":    text(`node\.kubernetes\.io/(not-ready|unreachable|unschedulable|(memory|disk|pid)-pressure|network-unavailable|out-of-service)`),
			"effect": words("NoSchedule", "PreferNoSchedule", "NoExecute"), "timeAdded": when,
		}))}),
		"status": object(map[string]Shape{
			"allocatable": amounts, "capacity": amounts, "conditions": list(condition),
			"nodeInfo": object(map[string]Shape{
				"architecture": words("amd64", "arm64"), "operatingSystem": words("linux"), "kernelVersion": version, "kubeletVersion": version, "containerRuntimeVersion": version,
			}),
		}),
	})
}()

// Slices is the shape of a list of a node's ResourceSlices.
var Slices = func() Shape {
	device := map[string]Shape{ // the attributes are also in the daemon's state
		"name": text(`pci-[0-9a-f]{4,8}-[0-9a-f]{2}-[0-9a-f]{2}-[0-7](-p[0-9])?`),
		"taints": list(object(map[string]Shape{
			"key": words(driver + "/unhealthy"), "effect": words("NoSchedule", "NoExecute", "None"), "timeAdded": when,
			"value": text(`((` + names + `)\.)?(` + names + `)(\.[a-z0-9.-]{1,40})?`),
		})),
	}
	return object(map[string]Shape{"items": list(object(map[string]Shape{
		"metadata": object(map[string]Shape{"creationTimestamp": when, "generation": number}),
		"spec": object(map[string]Shape{
			"driver": words(driver), "pool": object(map[string]Shape{"generation": number, "resourceSliceCount": number}),
			"devices": list(object(device)),
		}),
	}))})
}()

// phrases lists the phrases to keep from an error's text.
var phrases = []string{
	"address already in use", "bad file descriptor", "broken pipe", "cannot allocate memory", "connection refused", "connection reset by peer", "context canceled",
	"deadline exceeded", "device or resource busy", "file exists", "free", "input/output error", "invalid argument", "i/o timeout", "is a directory", "is not a directory",
	"no space left on device", "no such device", "no such file or directory", "no answer within", "not a directory", "operation not permitted", "permission denied",
	"read-only file system", "stale NFS file handle", "too many open files", "unexpected EOF", "transport is closing", "exit code 1", "exit code 2", "exit code 137",
	"ended by the kubelet", "ended by us", "there is no kubelet", "the kubelet has ended the stream", "not known for", "unhealthy", "you don't have permission", "not found",
	"found no pod of the plugin on this node", "previous terminated container", "its container does not run", "older than this command needs", "cannot be parsed",
	"x509", "certificate has expired", "OOMKilled", "Back-off", "failed to pull", "read-timeout", "is larger than",
}
