package logevent

// part is a group of events that has its own table in the documentation.
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
		{DaemonStopping, levels(info), "The daemon stops because of a signal or a failed part.", must(reason), nil},
		{DaemonStopped, levels(info), "The daemon has closed everything.", nil, nil},
		{DaemonFailed, levels(errorLevel), "The daemon could not start, or a part of it failed.", must(errorText), nil},
		{DaemonStarved, levels(warn),
			"Cards cannot be read because the daemon or the node has no file descriptor or memory left. " +
				"Devices keep their state for `--tombstone-grace`; after that they are `unchecked`. Logged once.",
			must(errorText), nil},
		{DaemonRecovered, levels(info), "File descriptors and memory are available again, and all cards were read.", must(lasted), nil},
		{Reloaded, levels(info),
			"After SIGHUP, the daemon has read `exclude`, `health`, `resources` and the settings of sensors again from the YAML file. It now reads all " +
				"cards and registers all resources again. `devices`: the excluded devices.",
			nil, may(devices)},
		{ModeChanged, levels(info), "The node's annotation selects another mode. Devices move to their resources in that mode.", must(oldValue, newValue), nil},
		{ConfigApplied, levels(info),
			"The files of `--config` and `--overrides` took effect, at the start or after a change. `devices`: the excluded devices.",
			nil, may(hash, devices)},
		{ConfigRefused, levels(errorLevel),
			"After a change or SIGHUP, a settings file cannot be read or is not valid. The previous settings stay in force.", must(errorText), nil},
		{ConfigNotice, levels(warn),
			"A setting or the node's annotation has no effect, or a changed setting needs a restart. " +
				"See [Notices about settings](log-events.md#notices-about-settings).",
			nil, may(flag, mode, devices, node, reason)},
		{OwnerWaiting, levels(info, warn.when("while the kubelet removes ResourceSlices")),
			"The daemon waits for another daemon of the node. `owner`: the API of the other daemon. `path`: its lock. Logged immediately, and " +
				"then every minute. `reason`: why it waits. `settings`: the other daemon still uses the old names of the devices, so this daemon keeps them too. " +
				"With any other reason, this daemon advertises nothing yet. `api`: a daemon of the other API owns the node. If there is a `retry_ms`, a DRA driver was killed, and the " +
				"device plugin waits until the kubelet has removed the driver's ResourceSlices. `naming`: a daemon of the same API owns the node, and its settings " +
				"give the devices other names. `withdrawal`: the last daemon of the same API withdraws its devices.",
			must(owner, path), may(lasted, reason, retry)},
		{OwnerTaken, levels(info), "The daemon may advertise the node's devices. `lasted_ms`: how long it has waited.", must(owner, lasted), nil},
		{OwnerLeft, levels(info, warn.when("with `error`, when ResourceSlices may remain")),
			"The last daemon of this API has withdrawn the devices and stops.", must(owner), may(errorText)},
		{OwnerUnavailable, levels(errorLevel),
			"A lock in `--state-dir` cannot be used. Before `owner.taken`, the daemon advertises nothing and keeps trying. Logged for each new error, and every minute.",
			must(errorText), may(lasted)},
	}
}

func ofDevices() []row {
	return []row{
		{DeviceAdded, levels(info, warn.when("when it is unhealthy, unless it is being plugged in, or is on `vfio-pci` and no rule names it")), "A device was found.",
			must(device, family, health, reasons), may(pci, resource, afu, interfaceID, nodes, parent, latency, errorText)},
		{DeviceHealth, levels(warn.when("when the health got worse, unless the device is being plugged in"), info.when("otherwise"), debug.when("while the device is on `vfio-pci` and no rule names it")),
			"The health of a device or its reasons changed.",
			must(device, oldValue, newValue, reasons, lasted), may(pci, holders, latency, errorText)},
		{DeviceIdentity, levels(info), "An attribute of a device's identity changed.", must(device, attribute, oldValue, newValue), may(pci)},
		{DeviceUnoffered, levels(info),
			"A device is listed but not advertised, because it lacks the AFU id or interface id that this mode needs. Logged once.",
			must(device, reason), nil},
		{DeviceRemoved, levels(info), "A device was removed from the node. `old`: its health before.", must(device, family, oldValue, lasted), may(pci, holders, latency)},
		{DeviceHeld, levels(info),
			"The kubelet reports new holders of a device. The line contains a `reason` if they are in the kubelet's first answer to this daemon.",
			must(device, resource, holders), may(pci, podUIDs, reason)},
		{DeviceFreed, levels(info),
			"The kubelet no longer reports these holders of a device. `lasted_ms`: time since it first reported them to this daemon.",
			must(device, resource, holders, lasted), may(podUIDs)},
		{DeviceHeldTwice, levels(errorLevel),
			"Several containers use one device at once: `holders`. The kubelet or this plugin has allocated it twice. It is listed as unhealthy.",
			must(device, holders), nil},
		{DeviceHeldOnce, levels(info), "After `device.held-twice`: at most one container uses the device again.", must(device), nil},
		{DeviceTombstone, levels(warn),
			"A device is still in use, although it was removed, is to move to another resource, or has other device nodes than its " +
				"holder was given. It stays listed as unhealthy. Logged again when its holders change.",
			must(device), may(pci, resource, holders)},
		{DeviceReturned, levels(info, debug.when("when it was to move to another resource, and no container used it")),
			"A removed device returned before its holder ended, a device that was to move stays in its old resource, or a missing card is back.",
			must(device, lasted), may(pci, resource, holders)},
		{DeviceReleased, levels(info, debug.when("when no container used it")),
			"A removed device is no longer listed, or a device that was to move is now advertised as the other resource.",
			must(device, reason, lasted), may(pci, resource)},
		{DeviceCordoned, levels(info),
			"A [cordon](service.md) was added or renewed. `device`: the card or port. " +
				"`reason`: `command`, or `file` if another daemon of this node added it, or if it was added before this daemon started.",
			must(device, by, why, reason), may(until)},
		{DeviceUncordoned, levels(info),
			"A cordon ended. `reason`: `command`, `expired`, or `file` if another daemon of this node removed it. " +
				"`by`: who ended it. `why`: the reason of the cordon.",
			must(device, why, reason), may(by, until)},
		{CordonUnavailable, levels(warn.when("at the start, when no cordon can be kept"), errorLevel.when("otherwise")),
			"`--state-dir` or its `cordons.json` cannot be used. Cordons that are in force stay in force. Logged once for each error.", must(errorText), nil},
		{DeviceMissing, levels(errorLevel),
			"A card that was on the node before was not found after the start; or a card had a fault and then left. `device`: its " +
				"address. `lasted_ms`: time since it was first missed, if that was before this start. Logged once after each start. See [health.md](health.md#a-missing-card).",
			must(device), may(lasted)},
		{CardForgotten, levels(info), "The command `forget` removed a card from the ledger.", must(device, by), nil},
		{LedgerBegun, levels(info), "A new [ledger](ledger.md) of the cards was started, because the state directory was used on another machine, " +
			"or because all cards changed their addresses. `count`: cards in the old ledger.", must(count, reason), nil},
		{LedgerUnavailable, levels(warn),
			"The ledger, `cards.json` in `--state-dir`, cannot be read or written. Until it can, the daemon keeps no history of the cards. Nothing else is affected. " +
				"A file that cannot be read is renamed to `cards.json.bad`. Logged once for each error.", must(path, errorText), nil},
		{HoldersUnknown, levels(warn),
			"A source that tells which container uses a device does not answer. `source`: `pod-resources` or `checkpoint` of the kubelet, or `claims` of the DRA driver. Devices that " +
				"are known to be in use are still withheld. A removed device without a known holder stays listed for `--tombstone-grace`.",
			must(source, errorText, grace), nil},
		{HoldersKnown, levels(info), "The source answers again.", must(source), nil},
	}
}

func reading() []row {
	return []row{
		{ScanDone, levels(info), "The first snapshot of the devices was published. `count`: devices.", must(count, rev), nil},
		{ScanFailed, levels(warn.when("the first and the third time"), debug.when("otherwise")),
			"A card could not be read or, without `pci`, the cards could not be listed. `count`: failures in a row.", must(errorText), may(pci, count)},
		{ScanRecovered, levels(info), "A card could be read again or, without `pci`, the cards could be listed again.", nil, may(pci, count)},
		{ReadTimeout, levels(warn), "Reading a card takes longer than 2 s. Without `lasted_ms`, 12 reads of its slot already hang, and the card is read again when one of them returns.",
			must(pci), may(lasted)},
		{ReadRecovered, levels(info), "A read that took longer than 2 s ended.", must(pci, lasted), nil},
		{SensorsFailed, levels(warn),
			"[Sensors](sensors.md) of a card could not be read, or reading them takes longer than 10 s or has not ended when the daemon stops. Nothing else is affected. Logged again only after all of them could be read.",
			must(pci, errorText), nil},
		{SensorsRead, levels(info), "All sensors of a card could be read again. `lasted_ms`: time since the first failure.", must(pci, lasted), nil},
	}
}

func sources() []row {
	return []row{
		{SourceOpened, levels(info), "A source of events was opened. `bytes`: size of its buffer. `count`: number of its watches.", must(source), may(path, size, count)},
		{SourceLost, levels(warn, debug.when("for further attempts, and for a directory that was removed")),
			"A source of events, or a part of it, was lost. The daemon tries to open it again.",
			must(source, errorText), may(path, remaining)},
		{SourceRecovered, levels(info), "A source of events was opened again.", must(source), may(path, size, count)},
		{UEventOverflow, levels(warn), "Uevents were lost. The daemon reads all cards again. `count`: messages that were still queued.", must(count), nil},
		{InotifyOverflow, levels(warn), "Inotify events were lost. The daemon reads all cards again.", must(path), nil},
		{UEventForged, levels(warn.when("at most once a minute")), "A uevent that the kernel did not send was dropped. `count`: forged uevents since the last such line.",
			must(count, pid, uid, netlinkPort), nil},
		{UEventMalformed, levels(warn.when("at most once a minute")),
			"A uevent could not be parsed. The daemon reads all cards again. `count`: malformed uevents since the last such line.",
			must(count, size, errorText), nil},
		{HintReceived, levels(debug), "A source of events reported that a card may have changed.", must(source), may(pci, node)},
		{UEventReceived, levels(debug), "A uevent that may concern a card was received. `reason`: the state of a PCI error recovery.",
			must(action, devpath, subsystem, seqnum), may(pci, node, reason)},
		{InotifyEvent, levels(debug), "An inotify event that may concern a card was received.", must(action), may(path, node)},
	}
}

func kubelet() []row {
	return []row{
		{ResourceServed, levels(debug), "The socket of a resource accepts connections. Next, the daemon registers the resource.", must(resource, socket), nil},
		{ResourceRegistered, levels(info), "The kubelet accepted the registration.", must(resource, socket), nil},
		{RegisterFailed, levels(warn), "A registration failed. The daemon tries again, with increasing delays.", must(resource, errorText, retry), nil},
		{RegisterAbandoned, levels(info),
			"A registration ended before the kubelet answered: a socket was removed or replaced, or a new registration was requested.",
			must(resource, reason), nil},
		{RegistrationEnded, levels(info), "The daemon or the kubelet ended a registration. The daemon registers again.", must(resource, reason, retry), nil},
		{ResourceRetired, levels(info), "The daemon stopped serving a resource that has no devices.", must(resource), nil},
		{KubeletAbsent, levels(info), "No kubelet listens on kubelet.sock. The daemon waits for one.", must(resource, socket, errorText), nil},
		{KubeletRestarted, levels(info), "kubelet.sock was replaced. The daemon registers the resource again.", must(resource), nil},
		{SocketLost, levels(warn), "The plugin's socket was removed. The daemon registers the resource again, with a new socket.", must(resource, retry), nil},
		{SocketRemoved, levels(info, warn.when("with `error`, when it could not be removed")), "A socket that an earlier daemon left was removed.", must(socket), may(errorText)},
		{SocketTwin, levels(warn), "Another daemon serves in the kubelet's directory. This is normal during an upgrade with surge.", must(socket), nil},
		{StreamOpened, levels(info), "The kubelet opened a ListAndWatch stream.", must(resource), nil},
		{StreamClosed, levels(info), "A ListAndWatch stream ended.", must(resource, lasted, reason), nil},
		{ListSent, levels(info),
			"A list was sent to the kubelet. `count`: number of devices in it. `devices`: those that differ from the previous list of this stream; " +
				"missing in the first list of a stream.",
			must(resource, rev, count), may(devices, unhealthy, gone, latency)},
	}
}

func allocation() []row {
	return []row{
		{AllocateServed, levels(info), "The kubelet allocated devices to a container. `count`: their number.", must(resource, count), may(devices)},
		{AllocateRefused, levels(warn), "The daemon refused devices that the kubelet asked for. `count`: their number.", must(resource, count, reason), may(devices)},
		{CDIFailed, levels(errorLevel), "The CDI spec in `--cdi-dir` could not be written. No container gets a device until it is written.", must(errorText), nil},
		{CDIRecovered, levels(info), "The CDI spec could be written again.", nil, nil},
	}
}

// driver returns the events that only accelerator-dra-driver logs.
func driver() []row {
	return []row{
		{DriverRegistered, levels(info), "The kubelet registered the driver.", must(resource), nil},
		{SlicesPublished, levels(info),
			"The driver began to write the node's ResourceSlices, because a device has changed. `count`: number of devices in the slices. " +
				"`devices`: those that differ from the previous publication; missing in the first one.",
			must(resource, rev, count, sliceCount, tainted), may(devices, unhealthy, gone, latency)},
		{SlicesDeleted, levels(info),
			"Another client, such as a kubelet that restarts, deleted a ResourceSlice of this node. The driver writes it again.",
			must(resource, object), nil},
		{SlicesFailed, levels(warn), "ResourceSlices could not be written. The driver tries again.", must(resource, errorText), nil},
		{TaintsUnsupported, levels(warn.when("once")),
			"The API server drops the taints of devices. From now on, the driver leaves unhealthy devices out of the ResourceSlices, and no pod is evicted because of them.",
			must(resource), may(errorText)},
		{ClaimPrepared, levels(info),
			"Devices were prepared for the pods of a claim. `lasted_ms`: how long this took. `reason`: `admin access`, if the claim has it.",
			must(resource, claim, devices), may(reason, lasted)},
		{ClaimRefused, levels(warn),
			"The devices of a claim could not be prepared, so its pods do not start. The kubelet tries again. `lasted_ms`: the time until the refusal.",
			must(resource, claim, reason), may(devices, lasted)},
		{ClaimUnprepared, levels(info), "The devices of a claim are free again, because its pods have ended.", must(resource, claim), may(devices)},
		{ClaimForgotten, levels(warn),
			"The driver freed the devices of a claim that the kubelet has not unprepared. `reason`: what the API server says about the claim. " +
				"Two answers of the kubelet, five minutes apart, did not name these devices. See [dra.md](dra.md#a-claim-that-the-kubelet-has-forgotten).",
			must(resource, claim, reason), may(devices)},
		{ClaimUnchecked, levels(warn.when("the first of several in a row")),
			"The driver could not find out whether the kubelet has forgotten claims, because the API server or the kubelet did not answer. The driver frees no devices.",
			must(resource, errorText, retry), nil},
		{ClaimStatusFailed, levels(warn.when("the first of several in a row")),
			"The devices of prepared claims could not be written to the status of the claims. The pods are not affected. With `claim`, the API server refused " +
				"the status of this claim. The driver tries again when the devices of the claim change.",
			must(resource, errorText), may(claim, retry)},
		{StoreFailed, levels(warn),
			"The store of bitstreams could not be read, or contains more bitstreams than the driver publishes. `count`: those that are left out. " +
				"A pod does not start if it requires one of these.",
			must(path), may(errorText, count)},
	}
}

// programming returns the events of the accelerator-fpga hook.
func programming() []row {
	return []row{
		{ProgrammingDone, levels(info), "A card was programmed with the AFU of a container that starts.", must(device, afu, interfaceID, path, lasted), may(container)},
		{ProgrammingPresent, levels(info), "The AFU of a container that starts was already loaded.", must(device, afu, interfaceID, lasted), may(container)},
		{ProgrammingFailed, levels(errorLevel),
			"A card could not be programmed, so the container does not start. The pod's event ends with the same `error`.",
			must(errorText, lasted), may(device, afu, interfaceID, path, container)},
	}
}

// bitstreams returns the events of accelerator-fpga-registry keep.
func bitstreams() []row {
	return []row{
		{KeepStarted, levels(info), "The program has started. `path`: the file with the list of references.", must(version, pid, path), nil},
		{KeepStopped, levels(info), "The program has stopped, and no pull is running.", nil, nil},
		{KeepFailed, levels(errorLevel), "The program could not start, or a part of it failed.", must(errorText), nil},
		{KeepListed, levels(info), "The list was read, at the start or after a change. `count`: number of references in it.", must(path, count), nil},
		{KeepRefused, levels(errorLevel), "After a change, the list cannot be read or is not valid. The previous list stays in force.", must(path, errorText), nil},
		{BitstreamInstalled, levels(info), "The bitstream of a reference was pulled into the store.", must(reference, digest, path, lasted), nil},
		{BitstreamPresent, levels(info.when("at the first check, and at the first one after a failure"), debug.when("otherwise")),
			"The bitstream of a reference is already in the store.", must(reference, digest, path), nil},
		{BitstreamFailed, levels(warn.when("when the error differs from the previous one"), debug.when("otherwise")),
			"The bitstream of a reference could not be pulled or checked. If the store already contains a bitstream of this reference, it stays there.",
			must(reference, errorText), may(retry)},
		{BitstreamProgress, levels(info), "A pull is in progress. `reason`: what the pull does, or how much it has downloaded. Logged at most every 10 s.", must(reference, reason), nil},
		{BitstreamRemoved, levels(info), "A file that no reference in the list needs any more was removed. `reason`: `age` or `size`.", must(path, reason), nil},
		{BitstreamRetained, levels(warn), "Files that no reference needs any more could not be removed, or the program could not find out whether a card uses them. It tries again after an hour.", must(errorText), may(path)},
	}
}

// operator returns the events of accelerator-operator.
func operator() []row {
	return []row{
		{OperatorStarted, levels(info), "The operator has started.", must(version, pid), nil},
		{OperatorStopped, levels(info), "The operator has closed everything.", nil, nil},
		{OperatorFailed, levels(errorLevel), "The operator could not start, or a part of it failed.", must(errorText), nil},
		{AdmissionMapped, levels(info), "The admission webhook replaced names in a pod with resources.", must(object), nil},
		{AdmissionDenied, levels(warn), "The admission webhook denied a pod because of its resources. The creator of the pod gets the same reason.", must(object, reason), nil},
		{AdmissionFailed, levels(errorLevel),
			"An admission request contained no pod, or the mappings could not be read. The webhook refuses the pod, regardless of `failurePolicy`.", must(errorText), may(object)},
		{MappingPublished, levels(info, warn.when("when the mapping has no resource")), "The status of a mapping changed.", must(object, reason), may(resource)},
		{PluginsPublished, levels(info, warn.when("when the condition is not true, except during a rollout")),
			"A condition of an FpgaDevicePlugin changed, or the operator applied its spec.", must(object, reason), nil},
		{CertificateMade, levels(info), "A replica made a new certificate, which it serves within a minute. `object`: the Secret of the CA.", must(object, expires), nil},
		{CAInjected, levels(info),
			"`caBundle` was written to a webhook configuration. `object`: the configuration. " +
				"`count`: number of CAs in it. For ten minutes after a change, they include the old CA. `expires`: when the newest CA expires.",
			must(object, count, expires), nil},
	}
}

func network() []row {
	return []row{
		{APILost, levels(warn.when("once for each kind of failure")),
			"A request to the API server failed or was refused. The daemon tries again. Until a request succeeds, the last answer stays in force.", must(retry, errorText), may(address, node)},
		{APIRetried, levels(debug), "Another request to the API server failed. `count`: failures so far.", must(count, retry, errorText), may(address, node)},
		{APIRecovered, levels(info),
			"The API server answers again: a watch has lasted for 45 s, or an Event was written and no other is failing. `count`: failures.",
			must(count, lasted), may(address, node)},
		{ConditionChanged, levels(info), "The status of the [condition of the Node](node-condition.md) was changed. `reason`: the reason of the condition, and its message.",
			must(node, oldValue, newValue, reason), nil},
		{EventsDropped, levels(warn.when("at most once a minute")),
			"There were more [Events](events.md) than the rate limit or the table of pending Events allows. `count`: dropped Events since the last such line.", must(count), nil},
		{EventsAnonymous, levels(warn.when("once")),
			"The daemon's account may not get pods. Its Events on pods have no uid, so `kubectl describe pod` does not show them.", must(errorText), nil},
		{EventFailed, levels(warn.when("when the API server refuses it permanently"), debug.when("otherwise")),
			"The daemon gave up on an Event: it was refused, it was not accepted for 5 minutes, or its pod has ended. `reason`: reason of the Event.",
			must(reason, object), may(device, errorText)},
		{EventRecorded, levels(debug), "An Event was written. `reason`: reason of the Event. `count`: how often it happened.", must(reason, object, count), may(device)},
		{HTTPServed, levels(info), "The daemon serves HTTP at the address.", must(address), nil},
		{HTTPFailed, levels(warn), "The daemon cannot serve HTTP at the address. It tries again.", must(address, retry, errorText), nil},
		{ControlServed, levels(info), "The daemon serves its local socket for commands such as `devices`.", must(socket), nil},
		{ControlFailed, levels(warn), "The daemon cannot serve its local socket. It tries again.", must(socket, retry, errorText), nil},
		{ControlRefused, levels(warn),
			"The local socket refused a user who is neither root nor the daemon's user. Logged once, until the socket is served again.",
			must(socket, errorText), nil},
	}
}

func itself() []row {
	return []row{
		{LogLevel, levels(warn), "SIGUSR1 turned debug lines on or off.", must(oldValue, newValue), nil},
		{LogSuppressed, levels(warn, errorLevel.when("when one of the suppressed lines had this level")),
			"Repeated lines were suppressed: see [Repeated lines](log-events.md#repeated-lines). `device`, `pci`, `resource` and `source` are the same in all of these lines.", must(of, count, lasted),
			may(device, pci, resource, source)},
		{LogDropped, levels(warn),
			"Lines are missing here, because the log was not read or, with `error`, could not be written. " +
				"`count`: number of lines. `lasted_ms`: time since the first of them.",
			must(count, lasted), may(lostDebug, lostInfo, lostWarn, lostError, errorText)},
		{LibraryLog, levels(debug, info, warn), "A line of gRPC, client-go or the HTTP server. The message comes from the library.", nil, nil},
	}
}
