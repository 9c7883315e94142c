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

// Status says whether a node's cards need attention.
type Status string

// Statuses of a node's cards.
const (
	Good    Status = "good"    // no card needs attention
	Bad     Status = "bad"     // a card is broken or missing
	Unknown Status = "unknown" // the cards haven't been read, can't be read, aren't advertised, or don't exist
)

// Verdict is the result of judging all of a node's cards together.
type Verdict struct {
	Status  Status    `json:"status"`
	Reason  string    `json:"reason"`  // in CamelCase, as in a condition
	Message string    `json:"message"` // one line
	Since   time.Time `json:"since"`   // when Status last changed
	Faulty  []string  `json:"faulty"`  // sorted ids of the devices that have a fault; nil if there are none
}

// Reasons for verdicts.
const (
	NoFault       = "NoFault"
	CardFault     = "CardFault"
	CardMissing   = "CardMissing"   // cards are missing, and no other card has a fault
	NoCards       = "NoCards"       // there are no cards, and none are missing
	NotRead       = "NotRead"       // not all cards have been found and read yet
	NotChecked    = "NotChecked"    // the daemon is out of file descriptors or memory
	Recovering    = "Recovering"    // devices are recovering, and it isn't known whether they had a fault
	NotAdvertised = "NotAdvertised" // Kubernetes doesn't know about the devices yet
)

// Limits for a message. Together, they keep the message below 1024 bytes, the limit in the charts' policy.
const (
	mostFindings  = 10 // devices and missing cards
	longestReason = 64 // bytes
)

// Judge returns the verdict, without Since. It is Bad only for faults that need attention: a device that is unhealthy
// because of its hardware, a device in quarantine, or a missing card, unless they are cordoned. A recovering device
// counts only if it counted in the previous verdict, so the verdict doesn't improve until the device is advertised
// again, and a hold alone doesn't make it worse. After startup, it isn't known whether a recovering device counted
// before, so the verdict stays Unknown.
func Judge(before Verdict, s inventory.Snapshot, missing []ledger.Missing, cordons []cordon.Cordon) Verdict {
	switch {
	case s.Complete:
	case before.Status != "": // a mode change or startup
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
		if !inventory.IsAddress(d.ID) { // a pool unit
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
		if cordon.Find(cordons, m.Card) != nil {
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

// cardOf returns the address of a device's card, which is the address of the device itself or of its physical function.
func cardOf(d *inventory.Device) string {
	if physical := d.Attributes[inventory.AttributePhysicalFunction]; physical != "" {
		return strings.TrimPrefix(physical, "0000:")
	}
	card, _, _ := strings.Cut(d.ID, "-p")
	return card
}

func has(d *inventory.Device, reason string) bool { return slices.Contains(d.Reasons, reason) }

// recovering reports whether a device is unhealthy and has a reason that ended less than the recovery hold ago.
func recovering(d *inventory.Device) bool {
	return d.Health == inventory.Unhealthy && slices.ContainsFunc(d.Reasons, func(r string) bool {
		return strings.HasPrefix(r, inventory.ReasonRecovering+"=")
	})
}

// cause returns a device's worst hardware reason. It prefers a fault over a quarantine.
func cause(d *inventory.Device) string {
	i := slices.IndexFunc(d.Reasons, func(r string) bool {
		is := inventory.ReasonOf(r)
		return !is.Administrative && !is.Tombstone && !(d.Fault && r == inventory.ReasonFlapping)
	})
	reason := terminal.Escape(d.Reasons[max(i, 0)]) // may contain text that a driver has written to sysfs
	if len(reason) > longestReason {
		reason = strings.ToValidUTF8(reason[:longestReason], "") + "…"
	}
	return reason
}
