package event

// part is what some events are about.
type part struct {
	title string
	rows  []row
}

// parts are the tables of the catalogue.
func parts() []part {
	return []part{
		{"The daemon", daemon()},
		{"Devices", ofDevices()},
		{"Reading the cards", reading()},
		{"Hearing of changes", hearing()},
		{"The kubelet", kubelet()},
		{"Giving devices out", allocation()},
		{"Programming", programming()},
		{"The operator", operator()},
		{"API server and HTTP", network()},
		{"The log itself", itself()},
	}
}

func daemon() []row {
	return []row{
		{DaemonStarted, levels(info), "the daemon started", must(version, pid, mode), may(node)},
		{DaemonStopping, levels(info), "a signal came, or a part failed", must(reason), nil},
		{DaemonStopped, levels(info), "everything is closed", nil, nil},
		{DaemonFailed, levels(severe), "it could not start, or a part of it failed", must(trouble), nil},
		{DaemonStarved, levels(warn),
			"the daemon or the node is out of file descriptors or memory: cards cannot be read. Devices keep their state for `--tombstone-grace`, then they are `unchecked`. Logged once",
			must(trouble), nil},
		{DaemonRecovered, levels(info), "the daemon has file descriptors and memory again, and every card could be read", must(lasted), nil},
		{Reloaded, levels(info),
			"after SIGHUP: `exclude`, `health` and `resources` of the YAML file were read again; cards are read and resources registered again; devices: the excluded ones",
			nil, may(devices)},
		{ModeChanged, levels(info), "the node's annotation has another mode: devices move to their resources of that mode", must(before, after), nil},
		{ConfigApplied, levels(info), "the files of `--config` and `--overrides` are in force: at the start, and each time that they have changed; devices: the excluded ones", nil, may(hash, devices)},
		{ConfigRefused, levels(severe), "a file of settings has changed, or SIGHUP came, and it cannot be read or is not valid; the old settings stay", must(trouble), nil},
		{ConfigNotice, levels(warn),
			"a setting has no effect in this mode; a changed setting needs a restart; overrides of nodes have no effect without `--node-name`; an excluded address has no device; the node's annotation is not a mode, or is not known at the start, so the mode is as set; the API server has no such node",
			nil, may(flag, mode, devices, node, reason)},
	}
}

func ofDevices() []row {
	return []row{
		{DeviceAdded, levels(info, warn.when("when it is unhealthy for other reasons than being plugged in")), "a device is new",
			must(device, family, health, reasons), may(pci, resource, afu, interfaceID, nodes, parent, latency, trouble)},
		{DeviceHealth, levels(warn.when("when it got worse, except in the steps of being plugged in"), info.when("else")), "its health or its reasons changed",
			must(device, before, after, reasons, lasted), may(pci, holders, latency, trouble)},
		{DeviceIdentity, levels(info), "an attribute of its identity changed", must(device, attribute, before, after), may(pci)},
		{DeviceUnoffered, levels(info), "it is listed, but not offered in this mode, because it lacks an AFU id or an interface id; logged once",
			must(device, reason), nil},
		{DeviceRemoved, levels(info), "it left the node; old: its health", must(device, family, before, lasted), may(pci, holders, latency)},
		{DeviceHeld, levels(info),
			"the kubelet names holders of a device for the first time: with `reason`, in its first answer to this daemon", must(device, resource, holders), may(pci, reason)},
		{DeviceFreed, levels(info),
			"the kubelet no longer names these holders; lasted_ms: since it named them first to this daemon", must(device, resource, holders, lasted), nil},
		{DeviceTombstone, levels(warn),
			"a container holds a device that left, or that is to be offered as another resource: the device stays listed, unhealthy (logged again when its holders change)",
			must(device), may(pci, resource, holders)},
		{DeviceReturned, levels(info, debug.when("when it was to be offered as another resource, and no container held it")),
			"a device that left is back in its place before its holder has ended; or a device that was to be offered as another resource stays in its former one",
			must(device, lasted), may(pci, resource, holders)},
		{DeviceReleased, levels(info, debug.when("when no container held it")),
			"a device that left is off the list; or a device that was to be offered as another resource is offered there now", must(device, reason, lasted), may(pci, resource)},
		{DeviceCordoned, levels(info), "it is out of service: a [cordon](service.md) was added or renewed; device: the card or port; reason: `command`, or `file`: by another daemon of this node, or before this start",
			must(device, by, why, reason), may(until)},
		{DeviceUncordoned, levels(info), "its cordon has ended; reason: `command`, `expired`, or `file`: by another daemon of this node; by: the user of the command; why: the reason of the cordon",
			must(device, why, reason), may(by, until)},
		{CordonUnavailable, levels(warn.when("at the start: no cordon can be kept"), severe.when("else; those in force stay")),
			"`--state-dir` or its `cordons.json` cannot be used; logged once for each error", must(trouble), nil},
		{HoldersUnknown, levels(warn), "the pod-resources API does not answer: a removed device stays listed for `--tombstone-grace`", must(trouble, grace), nil},
		{HoldersKnown, levels(info), "the pod-resources API answers again", nil, nil},
		{NodesUnknown, levels(warn), "`devices` are held, and it is not known which nodes their containers were given (`error` says why): free devices are withheld, with the reason `node-in-use`", must(devices, trouble), nil},
		{NodesKnown, levels(info), "the nodes of all held devices are known again", nil, nil},
	}
}

func reading() []row {
	return []row{
		{ScanDone, levels(info), "the first scan has ended; count: devices", must(count, rev), nil},
		{ScanFailed, levels(warn.when("the first and the third time"), debug.when("else")),
			"a card could not be read, count: failures in a row; without `pci`: cards could not be listed", must(trouble), may(pci, count)},
		{ScanRecovered, levels(info), "the card could be read, or the cards be listed, again", nil, may(pci, count)},
		{ReadTimeout, levels(warn), "reading a card takes longer than 2 s", must(pci, lasted), nil},
		{ReadRecovered, levels(info), "that reading ended", must(pci, lasted), nil},
	}
}

func hearing() []row {
	return []row{
		{SourceOpened, levels(info), "a source of events was opened; bytes: its buffer; count: its watches", must(source), may(path, size, count)},
		{SourceLost, levels(warn, debug.when("when it is still lost, or for a directory that vanished")), "a source, or a part of it, is lost; it is retried, and that is logged at Debug",
			must(source, trouble), may(path, remaining)},
		{SourceRecovered, levels(info), "the source is open again", must(source), may(path, size, count)},
		{UEventOverflow, levels(warn), "uevents were lost; everything is read again; count: messages that were still queued", must(count), nil},
		{InotifyOverflow, levels(warn), "inotify events were lost; everything is read again", must(path), nil},
		{UEventForged, levels(warn.when("at most once a minute")), "a uevent that the kernel did not send was dropped; count: since the last such line",
			must(count, pid, uid, netlinkPort), nil},
		{UEventMalformed, levels(warn.when("at most once a minute")), "a uevent was not understood; everything is read again; count: since the last such line",
			must(count, size, trouble), nil},
		{HintReceived, levels(debug), "a hint that a card may have changed", must(source), may(pci, node)},
		{UEventReceived, levels(debug), "a uevent that may concern a card; reason: the state of a PCI error's recovery",
			must(action, devpath, subsystem, seqnum), may(pci, node, reason)},
		{InotifyEvent, levels(debug), "an inotify event that may concern a card", must(action), may(path, node)},
	}
}

func kubelet() []row {
	return []row{
		{ResourceServed, levels(debug), "the socket of a resource accepts connections; registering is next", must(resource, socket), nil},
		{ResourceRegistered, levels(info), "the kubelet accepted the registration", must(resource, socket), nil},
		{RegisterFailed, levels(warn), "registering failed; retried with backoff", must(resource, trouble, retry), nil},
		{RegisterAbandoned, levels(info), "a registration was given up before its answer: our socket or the kubelet's is gone", must(resource, reason), nil},
		{RegistrationEnded, levels(info), "a registration ended, because of the daemon or the kubelet; the next one follows", must(resource, reason, retry), nil},
		{ResourceRetired, levels(info), "the endpoint of a resource without devices ended", must(resource), nil},
		{KubeletAbsent, levels(info), "there is no kubelet.sock; waiting for it", must(resource, socket, trouble), nil},
		{KubeletRestarted, levels(info), "kubelet.sock is another file; registering again", must(resource), nil},
		{SocketLost, levels(warn), "our socket vanished; registering again", must(resource, retry), nil},
		{SocketRemoved, levels(info, warn.when("with `error` when it could not be removed")), "a leftover socket of an earlier run was removed", must(socket), may(trouble)},
		{SocketTwin, levels(warn), "another daemon serves in this directory (normal during an upgrade with surge)", must(socket), nil},
		{StreamOpened, levels(info), "the kubelet opened a ListAndWatch stream", must(resource), nil},
		{StreamClosed, levels(info), "a ListAndWatch stream ended", must(resource, lasted, reason), nil},
		{ListSent, levels(info),
			"a list was sent on a stream; count: its devices; devices: those that differ from the previous list of the stream, none on its first list",
			must(resource, rev, count), may(devices, unhealthy, gone, latency)},
	}
}

func allocation() []row {
	return []row{
		{AllocateServed, levels(info), "devices were given to a container; count: their number", must(resource, count), may(devices)},
		{AllocateRefused, levels(warn), "devices were refused to a container", must(resource, count, reason), may(devices)},
		{CDIFailed, levels(severe), "the CDI spec cannot be written (`--cdi-dir`): Allocate refuses until it can be written", must(trouble), nil},
		{CDIRecovered, levels(info), "the CDI spec could be written again", nil, nil},
	}
}

// programming returns the events of the hook of accelerator-fpga.
func programming() []row {
	return []row{
		{ProgrammingDone, levels(info), "a card was programmed for a container that starts, and has the AFU", must(device, afu, interfaceID, path, lasted), may(container)},
		{ProgrammingPresent, levels(info), "the card had the AFU already", must(device, afu, interfaceID, lasted), may(container)},
		{ProgrammingFailed, levels(severe), "the container does not start; `error` is also at the end of the pod's event", must(trouble, lasted), may(device, afu, interfaceID, path, container)},
	}
}

// operator returns the events of accelerator-operator.
func operator() []row {
	return []row{
		{OperatorStarted, levels(info), "the operator started", must(version, pid), nil},
		{OperatorStopped, levels(info), "everything is closed", nil, nil},
		{OperatorFailed, levels(severe), "the operator could not start, or a part of it failed", must(trouble), nil},
		{AdmissionMapped, levels(info), "names in a pod were replaced by resources", must(object), nil},
		{AdmissionDenied, levels(warn), "a pod was denied because of its resources; its creator gets the same reason", must(object, reason), nil},
		{AdmissionFailed, levels(severe), "a request had no pod, or the mappings could not be read; `failurePolicy` decides", must(trouble), may(object)},
		{MappingPublished, levels(info, warn.when("when it has no resource")), "the status of a mapping changed", must(object, reason), may(resource)},
		{PluginsPublished, levels(info, warn.when("when the condition is not true, and the plugin is not being rolled out")), "a condition of an FpgaDevicePlugin changed, or its spec was applied", must(object, reason), nil},
		{CertificateMade, levels(info), "a replica made a new certificate, which it serves within a minute; object: the Secret of the CA", must(object, expires), nil},
		{CAInjected, levels(info), "`caBundle` of the webhook was written; object: its configuration; count: CAs in it, more than one for ten minutes after a change; expires: of the newest", must(object, count, expires), nil},
	}
}

func network() []row {
	return []row{
		{APILost, levels(warn.when("again for trouble of another kind")),
			"the API server cannot be reached, or refuses; its last answer holds, and it is retried", must(retry, trouble), may(address, node)},
		{APIRetried, levels(debug), "another attempt failed; count: failures so far", must(count, retry, trouble), may(address, node)},
		{APIRecovered, levels(info), "a watch has lasted for 45 s, or an Event was accepted and no other one has failed; count: failures", must(count, lasted), may(address, node)},
		{EventsDropped, levels(warn.when("at most once a minute")),
			"there were more [Events](events.md) than may be written; count: since the last such line", must(count), nil},
		{EventsAnonymous, levels(warn.when("once")),
			"the account has no right to get pods: Events on pods have no uid, so `kubectl describe pod` does not show them", must(trouble), nil},
		{EventFailed, levels(warn.when("when the API server refuses it for good"), debug.when("else")),
			"an Event was given up: refused, not accepted for 5 minutes, or its pod has ended; reason: the Event's", must(reason, object), may(device, trouble)},
		{EventRecorded, levels(debug), "an Event was written; reason: the Event's; count: how often it happened", must(reason, object, count), may(device)},
		{HTTPServed, levels(info), "the HTTP address is served", must(address), nil},
		{HTTPFailed, levels(warn), "the HTTP address cannot be served, or no longer; it is retried", must(address, retry, trouble), nil},
		{ControlServed, levels(info), "the daemon's local socket is served: commands such as `devices` are answered", must(socket), nil},
		{ControlFailed, levels(warn), "the daemon's local socket cannot be served, or no longer; it is retried", must(socket, retry, trouble), nil},
		{ControlRefused, levels(warn), "a user other than root and the daemon's has connected to the daemon's local socket; the connection was closed; logged once, until the socket is served anew", must(socket, trouble), nil},
	}
}

func itself() []row {
	return []row{
		{LogLevel, levels(warn), "after SIGUSR1: debug lines are written from now on, or no longer", must(before, after), nil},
		{LogSuppressed, levels(warn, severe.when("when one of the lines had it")),
			"lines came too often and were left out, see above; device, pci, resource, source: as in the lines", must(of, count, lasted),
			may(device, pci, resource, source)},
		{LogDropped, levels(warn),
			"`count` lines were dropped at this place, because the reader of the log stalled or they could not be written (`error`); lasted_ms: since the first of them",
			must(count, lasted), may(lostDebug, lostInfo, lostWarn, lostError, trouble)},
		{LibraryLog, levels(debug, info, warn), "a line of the libraries gRPC and client-go, or of the HTTP server; its message is not ours", nil, nil},
	}
}
