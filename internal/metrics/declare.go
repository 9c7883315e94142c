package metrics

// Declaration is one metric.
type Declaration struct {
	Name   string
	Type   string // Gauge, Counter or Histogram
	Help   string // its meaning for an administrator, in one sentence
	Labels []string
}

// Types of metrics.
const (
	Gauge     = "gauge"
	Counter   = "counter"
	Histogram = "histogram"
)

var (
	buildInfo = Declaration{"accelerator_build_info", Gauge, "Always 1; the labels say which version runs.", []string{"version", "goversion"}}
	modeInfo  = Declaration{"accelerator_mode_info", Gauge, "Always 1; the label says which mode runs.", []string{"mode"}}

	devices = Declaration{"accelerator_devices", Gauge,
		"Devices by the resource that they are offered as, and by health; resource \"\": offered as nothing.", []string{"resource", "health"}}
	deviceHealth = Declaration{"accelerator_device_health", Gauge,
		"1 for the health that a device has, 0 for the two others.", []string{"device", "pci", "family", "resource", "health"}}
	deviceReason = Declaration{"accelerator_device_reason", Gauge,
		"1 for each reason why a device is not healthy; a reason that is over has no series.", []string{"device", "resource", "reason"}}
	deviceInfo = Declaration{"accelerator_device_info", Gauge,
		"Always 1; the labels say what a device is.", []string{"device", "pci", "pci_id", "family", "resource", "afu", "interface", "numa_node"}}
	tombstones = Declaration{"accelerator_tombstones", Gauge,
		"Devices on the lists, offered to nobody, because somebody holds or may hold what left or moves.", []string{"resource", "reason"}}
	transitions = Declaration{"accelerator_device_transitions_total", Counter,
		"Changes of a device's health; absent is a device that is not there. The reason is the worst one after a change for the worse, else \"\".",
		[]string{"old", "new", "reason"}}
	identityChanges = Declaration{"accelerator_device_identity_changes_total", Counter,
		"Devices that stayed and became something else, by what changed.", []string{"attribute"}}

	uevents = Declaration{"accelerator_uevents_total", Counter,
		"Uevents of the kernel that may concern a card.", []string{"subsystem", "action"}}
	ueventsIgnored = Declaration{"accelerator_uevents_ignored_total", Counter,
		"Uevents of the kernel that concern no card.", nil}
	ueventsForged = Declaration{"accelerator_uevents_forged_total", Counter,
		"Uevents dropped because they did not come from the kernel.", nil}
	ueventsMalformed = Declaration{"accelerator_uevents_malformed_total", Counter,
		"Uevents that were not understood; each had all cards read.", nil}
	ueventOverflows = Declaration{"accelerator_uevent_overflows_total", Counter,
		"Times that the kernel dropped uevents because the socket was full; each had all cards read.", nil}
	inotifyEvents = Declaration{"accelerator_inotify_events_total", Counter,
		"Inotify events that may concern a card: of device nodes, or of a simulated tree.", []string{"source"}}
	inotifyOverflows = Declaration{"accelerator_inotify_overflows_total", Counter,
		"Times that inotify events were lost because the queue was full; each had all cards read.", []string{"source"}}
	sourceUp = Declaration{"accelerator_source_up", Gauge,
		"1 while a source of news is open, 0 while it is lost and tried again.", []string{"source"}}

	hints = Declaration{"accelerator_hints_total", Counter,
		"Hints that a card may have changed, by who gave them.", []string{"source"}}
	scans = Declaration{"accelerator_scans_total", Counter,
		"Readings of one card, by result: ok, gone, failed, timeout, or starved if the daemon had no file descriptor or memory for it.", []string{"result"}}
	scanDuration = Declaration{"accelerator_scan_duration_seconds", Histogram,
		"How long it took to read one card; what timed out counts with the time after which it was given up.", nil}
	listings = Declaration{"accelerator_listings_total", Counter,
		"Listings of all cards, by result: ok, failed for at least one family, or starved if the daemon had no file descriptor or memory for it.", []string{"result"}}
	cardsUnreadable = Declaration{"accelerator_cards_unreadable", Gauge,
		"Cards whose last reading failed or is overdue.", nil}
	snapshotVersion = Declaration{"accelerator_snapshot_version", Gauge,
		"Number of the newest list of devices; it grows by one with each change. 0: the first scan is not done.", nil}
	holdersKnown = Declaration{"accelerator_holders_known", Gauge,
		"1 while the kubelet says who holds what, 0 while it does not; it is asked with each listing at least. No series before that.", nil}

	hintToSend = Declaration{"accelerator_hint_to_send_seconds", Histogram,
		"From the hint to the list that the kubelet's stream was given, once for each list that a hint led to.", nil}
	listsSent = Declaration{"accelerator_lists_sent_total", Counter,
		"Lists handed to the kubelet's streams.", []string{"resource"}}
	streams = Declaration{"accelerator_streams", Gauge,
		"ListAndWatch streams that the kubelet has open.", []string{"resource"}}
	streamsOpened = Declaration{"accelerator_streams_opened_total", Counter,
		"ListAndWatch streams that the kubelet has opened.", []string{"resource"}}
	registrations = Declaration{"accelerator_registrations_total", Counter,
		"Registrations with the kubelet, by result: ok, failed (refused, or no stream followed), or abandoned because the kubelet or our socket went away.", []string{"resource", "result"}}
	kubeletRestarts = Declaration{"accelerator_kubelet_restarts_total", Counter,
		"Restarts of the kubelet that a resource has met.", []string{"resource"}}
	resourceReady = Declaration{"accelerator_resource_ready", Gauge,
		"1 while a resource is registered with a stream open, or has nothing to offer.", []string{"resource"}}
	allocations = Declaration{"accelerator_allocations_total", Counter,
		"Allocate calls of the kubelet, by result: served or refused.", []string{"resource", "result"}}
	allocatedDevices = Declaration{"accelerator_allocated_devices_total", Counter,
		"Devices given to containers.", []string{"resource"}}
	cdiOK = Declaration{"accelerator_cdi_ok", Gauge,
		"1 while the CDI spec file is as it should be, 0 while it cannot be written; no series where CDI is off.", nil}

	apiEvents = Declaration{"accelerator_api_events_total", Counter,
		"Kubernetes Events, by what became of them: sent, failed or dropped.", []string{"result"}}
	apiFailures = Declaration{"accelerator_api_failures_total", Counter,
		"Requests to the API server that failed and are made again; Events that it refuses for good count in accelerator_api_events_total.", nil}
	logDropped = Declaration{"accelerator_log_dropped_total", Counter,
		"Lines of the log that were dropped because its reader had stalled or they could not be written, by level.", []string{"level"}}
	configReloads = Declaration{"accelerator_config_reloads_total", Counter,
		"Hangup signals after which the settings were read again, by result: ok or refused.", []string{"result"}}
)

// Declarations returns all metrics except those of the process, of Go and of the page itself,
// in the order of the documentation.
func Declarations() []Declaration {
	return []Declaration{
		buildInfo, modeInfo,
		devices, deviceHealth, deviceReason, deviceInfo, tombstones, transitions, identityChanges,
		hintToSend, listsSent, streams, streamsOpened, registrations, kubeletRestarts, resourceReady, allocations, allocatedDevices, cdiOK,
		hints, scans, scanDuration, listings, cardsUnreadable, snapshotVersion, holdersKnown,
		uevents, ueventsIgnored, ueventsForged, ueventsMalformed, ueventOverflows, inotifyEvents, inotifyOverflows, sourceUp,
		apiEvents, apiFailures, configReloads, logDropped,
	}
}
