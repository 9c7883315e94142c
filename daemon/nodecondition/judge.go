package nodecondition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Status says whether the cards of a node need attention.
type Status string

// The statuses.
const (
	Good    Status = "good"    // nobody
	Bad     Status = "bad"     // a card is broken or missing
	Unknown Status = "unknown" // the cards have not been read or cannot be, are not advertised yet, or there are none
)

// Verdict is the answer about all cards of a node.
type Verdict struct {
	Status  Status    `json:"status"`
	Reason  string    `json:"reason"`  // in CamelCase, as in a condition
	Message string    `json:"message"` // one line
	Since   time.Time `json:"since"`   // when Status began
	Faulty  []string  `json:"faulty"`  // ids of the devices with a fault, sorted; nil: none
}

// The reasons of verdicts.
const (
	NoFault       = "NoFault"
	CardFault     = "CardFault"
	CardMissing   = "CardMissing"   // cards are missing, and no other card has a fault
	NoCards       = "NoCards"       // there are no cards, and none is missing
	NotRead       = "NotRead"       // not all cards have been found and read yet
	NotChecked    = "NotChecked"    // the daemon is out of descriptors or memory
	Recovering    = "Recovering"    // devices recover, and it is not known whether they had a fault
	NotAdvertised = "NotAdvertised" // Kubernetes does not have the devices yet
)

// The limits of a message. Together they keep it below 1024 bytes, which is the limit in the policy of the charts.
const (
	mostFindings  = 10 // devices and missing cards
	longestReason = 64 // bytes
)

// Judge returns the verdict, except for its Since. It is Bad only for faults that need attention: a device that is
// unhealthy because of its hardware or in quarantine, and a missing card, unless they are cordoned. A recovering device
// counts only if it counted before. So the verdict gets better when the device is advertised again, and a hold alone
// does not make it worse. After the start it is unknown whether a device counted before, so the verdict remains
// Unknown.
func Judge(before Verdict, s inventory.Snapshot, missing []ledger.Missing, cordons []cordon.Cordon) Verdict {
	switch {
	case s.Complete:
	case before.Status != "": // a change of the mode, or the start
		return before
	default:
		return Verdict{Status: Unknown, Reason: NotRead, Message: "not all cards have been read yet"}
	}
	v := Verdict{Status: Good, Reason: NoFault}
	all, bad, unchecked, recovers := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{} // cards
	var findings []string
	noun := "card"
	for _, d := range s.Devices {
		if d.Unwanted() {
			continue
		}
		card := cardOf(d)
		all[card] = true
		if !inventory.IsAddress(d.ID) { // a unit of a pool
			noun = "device"
		}
		switch {
		case has(d, inventory.ReasonCordoned), has(d, inventory.ReasonExcluded):
		case d.Fault, has(d, inventory.ReasonFlapping), recovering(d) && slices.Contains(before.Faulty, d.ID):
			bad[card] = true
			v.Faulty = append(v.Faulty, d.ID)
			findings = append(findings, d.ID+" "+cause(d))
		case has(d, inventory.ReasonUnchecked):
			unchecked[card] = true
		case recovering(d) && before.Status == Unknown:
			recovers[card] = true
		}
	}
	for _, m := range missing {
		if cordon.Of(cordons, m.Card) != nil {
			continue
		}
		all[m.Card], bad[m.Card] = true, true
		findings = append(findings, m.Card+" missing since "+m.Since.UTC().Format("2006-01-02T15:04Z"))
	}
	switch {
	case len(findings) > 0:
		v.Status, v.Reason = Bad, CardFault
		if len(v.Faulty) == 0 {
			v.Reason = CardMissing
		}
		if more := len(findings) - mostFindings; more > 0 {
			findings = append(findings[:mostFindings], fmt.Sprintf("and %d more", more))
		}
		v.Message = fmt.Sprintf("%d of %s: %s", len(bad), count(len(all), noun), strings.Join(findings, "; "))
	case len(unchecked) > 0:
		v = Verdict{Status: Unknown, Reason: NotChecked, Message: "the daemon is out of file descriptors or memory, and cannot check " + count(len(unchecked), noun)}
	case len(recovers) > 0:
		v = Verdict{Status: Unknown, Reason: Recovering, Message: "waits for the recovery of " + count(len(recovers), noun)}
	case len(all) == 0:
		v = Verdict{Status: Unknown, Reason: NoCards, Message: "this node has no cards"}
	default:
		v.Message = count(len(all), noun) + " without a fault"
	}
	return v
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// cardOf returns the card of a device: its address, or the address of its physical function.
func cardOf(d *inventory.Device) string {
	if physical := d.Attributes[inventory.AttributePhysicalFunction]; physical != "" {
		return strings.TrimPrefix(physical, "0000:")
	}
	card, _, _ := strings.Cut(d.ID, "-p")
	return card
}

func has(d *inventory.Device, reason string) bool { return slices.Contains(d.Reasons, reason) }

// recovering reports whether a device is unhealthy, and has a reason that ended less than the recovery hold ago.
func recovering(d *inventory.Device) bool {
	return d.Health == inventory.Unhealthy && slices.ContainsFunc(d.Reasons, func(r string) bool {
		return strings.HasPrefix(r, inventory.ReasonRecovering+"=")
	})
}

// cause returns the worst reason of a device that comes from its hardware: a fault rather than a quarantine.
func cause(d *inventory.Device) string {
	i := slices.IndexFunc(d.Reasons, func(r string) bool {
		is := inventory.ReasonOf(r)
		return !is.Administrative && !is.Tombstone && !(d.Fault && r == inventory.ReasonFlapping)
	})
	reason := terminal.Escape(d.Reasons[max(i, 0)]) // it may contain what a driver writes to sysfs
	if len(reason) > longestReason {
		reason = strings.ToValidUTF8(reason[:longestReason], "") + "…"
	}
	return reason
}
