package logevent

// part is a group of events with its own table in the documentation.
type part struct {
	title string
	rows  []row
}

// parts returns the catalogue's tables.
func parts() []part {
	return []part{
		{"The daemon", daemon()},
		{"Devices", ofDevices()},
		{"Reading the cards", reading()},
		{"Sources of events", sources()},
		{"The kubelet", kubelet()},
		{"Allocation", allocation()},
		{"The DRA driver", driver()},
		{"Programming", programming()},
		{"Bitstreams from registries", bitstreams()},
		{"The operator", operator()},
		{"API server and HTTP", network()},
		{"The log itself", itself()},
	}
}

func daemon() []row {
	return []row{
		{DaemonStarted, levels(info), "The daemon has started.", must(version, pid, mode), may(node)},
		{DaemonStopping, levels(info), "The daemon is stopping because of a signal or because a part of it failed.", must(reason), nil},
		{DaemonStopped, levels(info), "The daemon has stopped.", nil, nil},
		{DaemonFailed, levels(errorLevel), "The daemon couldn't start, or a part of it failed.", must(errorText), nil},
		{DaemonStarved, levels(warn),
			"Cards can't be read because the daemon or the node has run out of file descriptors or memory. Devices keep their state for `--tombstone-grace`. " +
				"After that, they are `unchecked`. Logged once.",
			must(errorText), nil},
		{DaemonRecovered, levels(info), "File descriptors and memory are available again, and all cards have been read.", must(lasted), nil},
		{Reloaded, levels(info),
			"After SIGHUP, the daemon reread `exclude`, `health`, `resources` and the sensor settings from the YAML file. It now rereads all cards and " +
				"re-registers all resources. `devices`: the excluded devices.",
			nil, may(devices)},
		{ModeChanged, levels(info), "The node's annotation selects a different mode. Devices move to the resources that they have in that mode.", must(oldValue, newValue), nil},
		{ConfigApplied, levels(info),
			"The `--config` and `--overrides` files took effect, at startup or after a change. `devices`: the excluded devices.",
			nil, may(hash, devices)},
		{ConfigRefused, levels(errorLevel),
			"After a change or SIGHUP, a settings file couldn't be read or was invalid. The previous settings remain in effect.", must(errorText), nil},
		{ConfigNotice, levels(warn),
			"A setting or the node's annotation has no effect, or a changed setting requires a restart. See [Notices about settings](log-events.md#notices-about-settings).",
			nil, may(flag, mode, devices, node, reason)},
		{OwnerWaiting, levels(info, warn.when("while the kubelet removes ResourceSlices")),
			"The daemon is waiting for another daemon on the node. Logged immediately and then every minute. `owner`: the other daemon's API. `path`: the " +
				"other daemon's lock. `reason`: why the daemon is waiting (the [AcceleratorDaemonWaiting](alerts.md#acceleratordaemonwaiting) alert explains the " +
				"reasons). Unless the reason is `settings`, the daemon doesn't advertise anything yet. If `retry_ms` is present, a DRA driver was killed, and the device plugin is waiting until the kubelet has removed the driver's " +
				"ResourceSlices.",
			must(owner, path), may(lasted, reason, retry)},
		{OwnerTaken, levels(info), "The daemon can now advertise the node's devices. `lasted_ms`: how long it waited.", must(owner, lasted), nil},
		{OwnerLeft, levels(info, warn.when("with `error`, if ResourceSlices may be left behind")),
			"The last daemon of this API has withdrawn the devices and is stopping.", must(owner), may(errorText)},
		{OwnerUnavailable, levels(errorLevel),
			"A lock in `--state-dir` can't be used. Until `owner.taken` is logged, the daemon doesn't advertise anything and keeps trying. Logged for each new error, and every minute.",
			must(errorText), may(lasted)},
	}
}

func ofDevices() []row {
	return []row{
		{DeviceAdded, levels(info, warn.when("when the device is unhealthy")),
			"A device was found. Some devices are logged as Info even if they are unhealthy: those that are being plugged in, and functions on `vfio-pci` that no " +
				"rule matches.",
			must(device, family, health, reasons), may(pci, resource, afu, interfaceID, nodes, parent, latency, errorText)},
		{DeviceHealth, levels(warn.when("when the health got worse or a reason other than `recovering` was added"), info.when("otherwise"), debug.when("for functions on `vfio-pci` that no rule matches")),
			"A device's health or its reasons changed. While a device is being plugged in, this is logged as Info.",
			must(device, oldValue, newValue, reasons, lasted), may(pci, holders, latency, errorText)},
		{DeviceIdentity, levels(info), "An attribute of a device's identity changed.", must(device, attribute, oldValue, newValue), may(pci)},
		{DeviceUnoffered, levels(info),
			"A device is listed but not advertised, because it doesn't have the AFU ID or interface ID that this mode requires. Logged once.",
			must(device, reason), nil},
		{DeviceRemoved, levels(info), "A device was removed from the node. `old`: its previous health.", must(device, family, oldValue, lasted), may(pci, holders, latency)},
		{DeviceHeld, levels(info),
			"The kubelet reports new holders of a device. The line contains `reason` if the kubelet's first response to this daemon already included them.",
			must(device, resource, holders), may(pci, podUIDs, reason)},
		{DeviceFreed, levels(info),
			"The kubelet no longer reports these holders of a device. `lasted_ms`: time since the kubelet first reported them to this daemon.",
			must(device, resource, holders, lasted), may(podUIDs)},
		{DeviceHeldTwice, levels(errorLevel),
			"Several containers (`holders`) are using the same device, because the kubelet or this plugin allocated it twice. The device is listed as unhealthy.",
			must(device, holders), nil},
		{DeviceHeldOnce, levels(info), "At most one container is using the device again, after `device.held-twice`.", must(device), nil},
		{DeviceTombstone, levels(warn),
			"A container is still using a device that was removed or replaced, is about to move to another resource, or now has different device nodes. The " +
				"device stays listed as unhealthy. Logged again when its holders change.",
			must(device), may(pci, resource, holders)},
		{DeviceReturned, levels(info, debug.when("when a device was about to move and no container was using it")),
			"A removed device returned before its holder terminated, a device that was about to move to another resource stays in its old one, or a missing card is back.",
			must(device, lasted), may(pci, resource, holders)},
		{DeviceReleased, levels(info, debug.when("when no container was using it")),
			"A removed device is no longer listed, or a device that was about to move to another resource has moved.",
			must(device, reason, lasted), may(pci, resource)},
		{DeviceCordoned, levels(info),
			"A [cordon](service.md) was added or renewed. `device`: the card or port. `reason`: `command`, or `file` if another daemon on this node added it, " +
				"or if it was added before this daemon started.",
			must(device, by, why, reason), may(until)},
		{DeviceUncordoned, levels(info),
			"A cordon was removed or expired. `reason`: `command`, `expired`, or `file` if another daemon on this node removed it. `by`: who removed it. `why`: the reason for the cordon.",
			must(device, why, reason), may(by, until)},
		{CordonUnavailable, levels(warn.when("at startup, when cordons can't be stored"), errorLevel.when("otherwise")),
			"`--state-dir` or its `cordons.json` can't be used. Existing cordons remain in effect. Logged once for each error.", must(errorText), nil},
		{DeviceMissing, levels(errorLevel),
			"A card that used to be on the node wasn't found at startup, or a card had a fault and then disappeared. `device`: its address. If the card was " +
				"already missing before this start, `lasted_ms` is the time since it was first found missing. Logged once after each start. See [health.md](health.md#a-missing-card).",
			must(device), may(lasted)},
		{CardForgotten, levels(info), "The `forget` command removed a card from the ledger.", must(device, by), nil},
		{LedgerBegun, levels(info),
			"A new [ledger](ledger.md) of the cards was started, because the state directory was used on another machine or because the addresses of all cards " +
				"changed. `count`: number of cards in the old ledger.",
			must(count, reason), nil},
		{LedgerUnavailable, levels(warn),
			"The ledger (`cards.json` in `--state-dir`) can't be read or written. Until it can, the daemon doesn't keep any card history. Nothing else is " +
				"affected. An unreadable file is renamed to `cards.json.bad`. Logged once for each error.", must(path, errorText), nil},
		{HoldersUnknown, levels(warn),
			"A source that shows which container is using a device doesn't respond. `source`: the kubelet's `pod-resources` or `checkpoint`, or the DRA " +
				"driver's `claims`. Devices that are known to be in use are still withheld. A removed device without a known holder stays listed for " +
				"`--tombstone-grace`.",
			must(source, errorText, grace), nil},
		{HoldersKnown, levels(info), "The source responds again.", must(source), nil},
	}
}

func reading() []row {
	return []row{
		{ScanDone, levels(info), "The first snapshot of the devices was published. `count`: number of devices.", must(count, rev), nil},
		{ScanFailed, levels(warn.when("the first and the third time"), debug.when("otherwise")),
			"A card couldn't be read. If `pci` is missing, the cards couldn't be listed. `count`: number of failures in a row.", must(errorText), may(pci, count)},
		{ScanRecovered, levels(info), "A card could be read again. If `pci` is missing, the cards could be listed again.", nil, may(pci, count)},
		{ReadTimeout, levels(warn),
			"Reading a card is taking longer than 2 s. If `lasted_ms` is missing, the card wasn't read, because 12 reads of its slot are already hanging. It is " +
				"reread when one of them returns.",
			must(pci), may(lasted)},
		{ReadRecovered, levels(info), "A read that took longer than 2 s has finished.", must(pci, lasted), nil},
		{SensorsFailed, levels(warn),
			"A card's [sensors](sensors.md) couldn't be read, or reading them took longer than 10 s or hadn't finished when the daemon stopped. Nothing else is " +
				"affected. Not logged again until all of the card's sensors have been read.",
			must(pci, errorText), nil},
		{SensorsRead, levels(info), "All of a card's sensors could be read again. `lasted_ms`: time since the first failure.", must(pci, lasted), nil},
	}
}

func sources() []row {
	return []row{
		{SourceOpened, levels(info), "An event source was opened. `bytes`: its buffer size. `count`: its number of watches.", must(source), may(path, size, count)},
		{SourceLost, levels(warn, debug.when("for further attempts and for removed directories")),
			"An event source or part of it was lost. The daemon tries to reopen it.",
			must(source, errorText), may(path, remaining)},
		{SourceRecovered, levels(info), "An event source was reopened.", must(source), may(path, size, count)},
		{UEventOverflow, levels(warn), "Uevents were lost. The daemon rereads all cards. `count`: number of messages that were still queued.", must(count), nil},
		{InotifyOverflow, levels(warn), "Inotify events were lost. The daemon rereads all cards.", must(path), nil},
		{UEventForged, levels(warn.when("at most once a minute")), "A uevent that didn't come from the kernel was dropped. `count`: number of forged uevents since the last such line.",
			must(count, pid, uid, netlinkPort), nil},
		{UEventMalformed, levels(warn.when("at most once a minute")),
			"A uevent couldn't be parsed. The daemon rereads all cards. `count`: number of malformed uevents since the last such line.",
			must(count, size, errorText), nil},
		{HintReceived, levels(debug), "An event source reported that a card may have changed.", must(source), may(pci, node)},
		{UEventReceived, levels(debug), "A uevent that may concern a card was received. `reason`: the state of the PCI error recovery.",
			must(action, devpath, subsystem, seqnum), may(pci, node, reason)},
		{InotifyEvent, levels(debug), "An inotify event that may concern a card was received.", must(action), may(path, node)},
	}
}

func kubelet() []row {
	return []row{
		{ResourceServed, levels(debug), "A resource's socket is accepting connections. Next, the daemon registers the resource.", must(resource, socket), nil},
		{ResourceRegistered, levels(info), "The kubelet accepted the registration.", must(resource, socket), nil},
		{RegisterFailed, levels(warn), "A registration failed. The daemon tries again, with increasing delays.", must(resource, errorText, retry), nil},
		{RegisterAbandoned, levels(info),
			"A registration ended before the kubelet responded: a socket was removed or replaced, or a new registration was requested.",
			must(resource, reason), nil},
		{RegistrationEnded, levels(info), "The daemon or the kubelet ended a registration. The daemon re-registers.", must(resource, reason, retry), nil},
		{ResourceRetired, levels(info), "The daemon stopped serving a resource that doesn't have any devices.", must(resource), nil},
		{KubeletAbsent, levels(info), "No kubelet is listening on kubelet.sock. The daemon waits for one.", must(resource, socket, errorText), nil},
		{KubeletRestarted, levels(info), "kubelet.sock was replaced. The daemon re-registers the resource.", must(resource), nil},
		{SocketLost, levels(warn), "The plugin's socket was removed. The daemon re-registers the resource with a new socket.", must(resource, retry), nil},
		{SocketRemoved, levels(info, warn.when("with `error`, if it couldn't be removed")), "A socket left over from an earlier daemon was removed.", must(socket), may(errorText)},
		{SocketTwin, levels(warn), "Another daemon is serving in the kubelet's directory. This is normal during an upgrade with surge.", must(socket), nil},
		{StreamOpened, levels(info), "The kubelet opened a ListAndWatch stream.", must(resource), nil},
		{StreamClosed, levels(info), "A ListAndWatch stream ended.", must(resource, lasted, reason), nil},
		{ListSent, levels(info),
			"A list was sent to the kubelet. `count`: number of devices in the list. `devices`: the devices that differ from the stream's previous list. " +
				"This field is missing for a stream's first list.",
			must(resource, rev, count), may(devices, unhealthy, gone, latency)},
	}
}

func allocation() []row {
	return []row{
		{AllocateServed, levels(info), "The kubelet allocated devices to a container. `count`: number of devices. `lasted_ms`: how long the daemon waited for a force-deleted pod's processes to end. This field is missing if the daemon didn't wait.", must(resource, count), may(devices, lasted)},
		{AllocateRefused, levels(warn), "The daemon refused to allocate devices that the kubelet requested. `count`: number of devices.", must(resource, count, reason), may(devices)},
		{CDIFailed, levels(errorLevel), "The CDI spec in `--cdi-dir` couldn't be written. Containers don't get any devices until it is written.", must(errorText), nil},
		{CDIRecovered, levels(info), "The CDI spec could be written again.", nil, nil},
	}
}

// driver returns the events that only accelerator-dra-driver logs.
func driver() []row {
	return []row{
		{DriverRegistered, levels(info), "The kubelet registered the driver.", must(resource), nil},
		{SlicesPublished, levels(info),
			"The driver started writing the node's ResourceSlices because a device has changed. `count`: number of devices in the slices. `devices`: the " +
				"devices that have changed since the slices were last published. This field is missing the first time and after SIGHUP.",
			must(resource, rev, count, sliceCount, tainted), may(devices, unhealthy, gone, latency)},
		{SlicesDeleted, levels(info),
			"Another client, such as a restarting kubelet, deleted one of this node's ResourceSlices. The driver rewrites it.",
			must(resource, object), nil},
		{SlicesFailed, levels(warn), "ResourceSlices couldn't be written. The driver tries again.", must(resource, errorText), nil},
		{TaintsUnsupported, levels(warn.when("once")),
			"The API server drops device taints. From now on, the driver leaves unhealthy devices out of the ResourceSlices, and pods aren't evicted because of them.",
			must(resource), may(errorText)},
		{ClaimPrepared, levels(info),
			"Devices were prepared for a claim's pods. `lasted_ms`: how long this took. `reason`: `admin access` if the claim has admin access.",
			must(resource, claim, devices), may(reason, lasted)},
		{ClaimRefused, levels(warn),
			"A claim's devices couldn't be prepared, so its pods don't start. The kubelet tries again. `lasted_ms`: how long the attempt took.",
			must(resource, claim, reason), may(devices, lasted)},
		{ClaimUnprepared, levels(info), "A claim's devices are free again because its pods have terminated.", must(resource, claim), may(devices)},
		{ClaimForgotten, levels(warn),
			"The driver freed a claim's devices, even though the kubelet hasn't unprepared the claim. It did so because two of the kubelet's responses, five " +
				"minutes apart, didn't include the devices. `reason`: what the API server says about the claim. See [dra.md](dra.md#a-claim-that-the-kubelet-has-forgotten).",
			must(resource, claim, reason), may(devices)},
		{ClaimUnchecked, levels(warn.when("the first of several in a row")),
			"The driver couldn't find out whether the kubelet has forgotten any claims, because the API server or the kubelet didn't respond. The driver doesn't free any devices.",
			must(resource, errorText, retry), nil},
		{ClaimStatusFailed, levels(warn.when("the first of several in a row")),
			"The devices of prepared claims couldn't be written to the claims' status. The pods aren't affected. If `claim` is present, the API server " +
				"rejected this claim's status, and the driver tries again when the claim's devices change.",
			must(resource, errorText), may(claim, retry)},
		{StoreFailed, levels(warn),
			"The bitstream store couldn't be read, or contains more bitstreams than the driver publishes. `count`: number of bitstreams that are left out. A " +
				"pod that requires one of these doesn't start.",
			must(path), may(errorText, count)},
	}
}

// programming returns the events of the accelerator-fpga hook.
func programming() []row {
	return []row{
		{ProgrammingDone, levels(info), "A card was programmed with the AFU for a container that is starting.", must(device, afu, interfaceID, path, lasted), may(container)},
		{ProgrammingPresent, levels(info), "The AFU for a container that is starting was already loaded.", must(device, afu, interfaceID, lasted), may(container)},
		{ProgrammingFailed, levels(errorLevel),
			"A card couldn't be programmed, so the container doesn't start. The pod's event ends with the same `error`.",
			must(errorText, lasted), may(device, afu, interfaceID, path, container)},
	}
}

// bitstreams returns the events of accelerator-fpga-registry keep.
func bitstreams() []row {
	return []row{
		{KeepStarted, levels(info), "The program has started. `path`: the file containing the list of references.", must(version, pid, path), nil},
		{KeepStopped, levels(info), "The program has stopped, and no pulls are running.", nil, nil},
		{KeepFailed, levels(errorLevel), "The program couldn't start, or a part of it failed.", must(errorText), nil},
		{KeepListed, levels(info), "The list was read, at startup or after a change. `count`: number of references in the list.", must(path, count), nil},
		{KeepRefused, levels(errorLevel), "After a change, the list couldn't be read or was invalid. The previous list remains in effect.", must(path, errorText), nil},
		{BitstreamInstalled, levels(info), "A reference's bitstream was pulled into the store.", must(reference, digest, path, lasted), nil},
		{BitstreamPresent, levels(info.when("for the first check, and for the first one after a failure"), debug.when("otherwise")),
			"A reference's bitstream is already in the store.", must(reference, digest, path), nil},
		{BitstreamFailed, levels(warn.when("when the error differs from the previous one"), debug.when("otherwise")),
			"A reference's bitstream couldn't be pulled or checked. If the store already contains a bitstream for this reference, it stays there.",
			must(reference, errorText), may(retry)},
		{BitstreamProgress, levels(info), "A pull is in progress. `reason`: what the pull is doing, or how much has been downloaded. Logged at most every 10 s.", must(reference, reason), nil},
		{BitstreamRemoved, levels(info), "A file that no reference in the list needs anymore was removed. `reason`: `age` or `size`.", must(path, reason), nil},
		{BitstreamRetained, levels(warn),
			"Files that no reference in the list needs anymore couldn't be removed, or the program couldn't find out whether a card is using them. The " +
				"program tries again after an hour.",
			must(errorText), may(path)},
	}
}

// operator returns the events of accelerator-operator.
func operator() []row {
	return []row{
		{OperatorStarted, levels(info), "The operator has started.", must(version, pid), nil},
		{OperatorStopped, levels(info), "The operator has stopped.", nil, nil},
		{OperatorFailed, levels(errorLevel), "The operator couldn't start, or a part of it failed.", must(errorText), nil},
		{AdmissionMapped, levels(info), "The admission webhook replaced names in a pod with resources.", must(object), nil},
		{AdmissionDenied, levels(warn), "The admission webhook denied a pod because of its resources. The pod's creator sees the same reason.", must(object, reason), nil},
		{AdmissionFailed, levels(errorLevel),
			"An admission request didn't contain a pod, or the mappings couldn't be read. The webhook rejects the pod regardless of `failurePolicy`.", must(errorText), may(object)},
		{MappingPublished, levels(info, warn.when("when the mapping doesn't have a resource")), "A mapping's status changed.", must(object, reason), may(resource)},
		{PluginsPublished, levels(info, warn.when("when the condition isn't true, except during a rollout")),
			"A condition of an FpgaDevicePlugin changed, or the operator applied its spec.", must(object, reason), nil},
		{CertificateMade, levels(info), "A replica created a new certificate and will serve it within a minute. `object`: the CA's Secret.", must(object, expires), nil},
		{CAInjected, levels(info),
			"`caBundle` was written to a webhook configuration. `object`: the configuration. `count`: number of CAs in `caBundle`. For ten minutes after a " +
				"change, this includes the old CA. `expires`: when the newest CA expires.",
			must(object, count, expires), nil},
	}
}

func network() []row {
	return []row{
		{APILost, levels(warn.when("once for each kind of failure")),
			"A request to the API server failed or was rejected. The daemon tries again. Until a request succeeds, the daemon keeps using the last response.", must(retry, errorText), may(address, node)},
		{APIRetried, levels(debug), "Another request to the API server failed. `count`: number of failures so far.", must(count, retry, errorText), may(address, node)},
		{APIRecovered, levels(info),
			"The API server responds again: a watch has lasted for 45 s, or an Event was written and no other Events are failing. `count`: number of failures.",
			must(count, lasted), may(address, node)},
		{ConditionChanged, levels(info), "The status of the [node condition](node-condition.md) was changed. `reason`: the condition's reason and message.",
			must(node, oldValue, newValue, reason), nil},
		{EventsDropped, levels(warn.when("at most once a minute")),
			"[Events](events.md) were dropped because there were more than the rate limit or the table of pending Events allows. `count`: number of dropped " +
				"Events since the last such line.", must(count), nil},
		{EventsAnonymous, levels(warn.when("once")),
			"The daemon's account isn't allowed to get pods. The Events that it writes for pods don't have a UID, so `kubectl describe pod` doesn't show them.", must(errorText), nil},
		{EventFailed, levels(warn.when("when the API server rejects the Event permanently"), debug.when("otherwise")),
			"The daemon gave up on an Event because the API server rejected it or didn't accept it within 5 minutes, or because its pod has terminated. `reason`: the Event's reason.",
			must(reason, object), may(device, errorText)},
		{EventRecorded, levels(debug), "An Event was written. `reason`: the Event's reason. `count`: how often it happened.", must(reason, object, count), may(device)},
		{HTTPServed, levels(info), "The daemon is serving HTTP on the address.", must(address), nil},
		{HTTPFailed, levels(warn), "The daemon can't serve HTTP on the address. It tries again.", must(address, retry, errorText), nil},
		{ControlServed, levels(info), "The daemon is serving its local socket for commands such as `devices`.", must(socket), nil},
		{ControlFailed, levels(warn), "The daemon can't serve its local socket. It tries again.", must(socket, retry, errorText), nil},
		{ControlRefused, levels(warn),
			"The local socket rejected a user who is neither root nor the daemon's user. Not logged again until the socket is reopened.",
			must(socket, errorText), nil},
	}
}

func itself() []row {
	return []row{
		{LogLevel, levels(warn), "SIGUSR1 turned debug lines on or off.", must(oldValue, newValue), nil},
		{LogSuppressed, levels(warn, errorLevel.when("if any of the suppressed lines was an error")),
			"Repeated lines were suppressed (see [Repeated lines](log-events.md#repeated-lines)). `device`, `pci`, `resource` and `source` are the same in all " +
				"of these lines.", must(of, count, lasted),
			may(device, pci, resource, source)},
		{LogDropped, levels(warn),
			"Lines are missing here because the log wasn't read or, if `error` is present, couldn't be written. `count`: number of missing lines. `lasted_ms`: " +
				"time since the first one.",
			must(count, lasted), may(lostDebug, lostInfo, lostWarn, lostError, errorText)},
		{LibraryLog, levels(debug, info, warn), "A line from gRPC, client-go or the HTTP server. The message comes from the library.", nil, nil},
	}
}
