package timeline

import "b-com.com/accelerator-device-plugin/internal/logevent"

// phrases contains the text for the events that make up a device's history. All other events are shown by their message
// and fields.
//
//	{field}    the value: a list's elements, or a duration if the field is in ms
//	{change}   the old and new fields: OLD → NEW, or "still NEW" if they are equal
//	{list}     the devices, unhealthy and gone fields: the health of each device on the list that was sent
//
// Each part except the first is omitted if one of its fields is missing, empty or a duration of 0. Parts that begin
// with "(" are collected in parentheses at the end.
var phrases = map[string][]string{
	logevent.DaemonStarted.String: {"daemon started, version {version}, mode {mode}", ", node {node}"},
	logevent.DaemonStopped.String: {"daemon stopped"},
	logevent.ModeChanged.String:   {"mode changed by the node's annotation: {change}"},

	logevent.DeviceAdded.String: {"new, {health}", ": {reasons}", "; resource {resource}", "; {error}", "(noticed in {latency_ms}"},
	logevent.DeviceHealth.String: {
		"{change}", ": {reasons}", "; in use by {holders}", "; {error}", "(was {old} for {lasted_ms}", "(noticed in {latency_ms}",
	},
	logevent.DeviceIdentity.String:   {"changed: {attribute} {change}"},
	logevent.DeviceUnoffered.String:  {"not advertised to the kubelet: {reason}"},
	logevent.DeviceRemoved.String:    {"gone", ", in use by {holders}", "(was {old} for {lasted_ms}", "(noticed in {latency_ms}"},
	logevent.DeviceHeld.String:       {"in use by {holders}", "({reason}", "(pod {pod_uids}"},
	logevent.DeviceFreed.String:      {"no longer in use by {holders}", "(after {lasted_ms}", "(pod {pod_uids}"},
	logevent.DeviceHeldTwice.String:  {"{message}: {holders}"},
	logevent.DeviceTombstone.String:  {"still in use", " by {holders}", " as {resource}", ": stays listed as unhealthy until the container terminates"},
	logevent.DeviceReturned.String:   {"returned", ", in use by {holders}", "(was gone for {lasted_ms}"},
	logevent.DeviceReleased.String:   {"released: {reason}", "(listed as unhealthy for {lasted_ms}"},
	logevent.DeviceCordoned.String:   {"cordoned by {by}", " until {until}", ": {why}", "({reason}"},
	logevent.DeviceUncordoned.String: {"uncordoned", " by {by}", "({reason}", "(reason of the cordon: {why}"},
	logevent.DeviceMissing.String:    {"missing", "(first missed {lasted_ms} before"},
	logevent.CardForgotten.String:    {"forgotten by {by}"},

	logevent.RegisterFailed.String:    {"registration failed: {error}", "(next attempt in {retry_ms}"},
	logevent.RegistrationEnded.String: {"registration ended: {reason}", "(next one in {retry_ms}"},
	logevent.StreamClosed.String:      {"stream to the kubelet closed: {reason}", "(open for {lasted_ms}"},
	logevent.ListSent.String:          {"list sent{list}", "({count} in all", "({latency_ms} after the hint"},
	logevent.SlicesPublished.String:   {"slices published{list}", "({count} in all, {tainted} tainted", "({latency_ms} after the hint"},

	logevent.AllocateServed.String:  {"allocated to a container", ": {devices}"},
	logevent.AllocateRefused.String: {"allocation refused", ": {devices}", ": {reason}"},
	logevent.ClaimPrepared.String:   {"prepared for claim {claim}: {devices}", "({reason}", "(took {lasted_ms}"},
	logevent.ClaimRefused.String:    {"refused for claim {claim}", ": {devices}", ": {reason}", "(after {lasted_ms}"},
	logevent.ClaimUnprepared.String: {"no longer prepared for claim {claim}", ": {devices}"},
	logevent.ClaimForgotten.String:  {"forgotten by the kubelet: no longer prepared for claim {claim}", ": {devices}", "({reason}"},

	logevent.ProgrammingDone.String:    {"programmed for a container: AFU {afu}", "(took {lasted_ms}"},
	logevent.ProgrammingPresent.String: {"already had the AFU of a container: {afu}"},
	logevent.ProgrammingFailed.String:  {"container not started: {error}"},

	logevent.LogSuppressed.String: {"too many lines of {of}: {count} suppressed", "(in {lasted_ms}"},
}
