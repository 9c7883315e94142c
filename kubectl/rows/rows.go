package rows

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
)

// Row is a device or a card on a node. It has the keys that the node sent, plus node, namespace, pod, version and api.
// A node that didn't answer has a single row, with the key error.
type Row = map[string]any

// Devices returns a row for each device in the answers, and a row with the health "absent" for each empty slot that is
// cordoned. If unhealthy is true, it leaves out healthy devices, unless a rule taints them. A device's taintRules key
// contains the names of the rules that taint the device.
func Devices(answers []fleet.Answer, rules []resourceapi.DeviceTaintRule, unhealthy bool) []Row {
	var all []Row
	for _, a := range answers {
		if a.Err != nil {
			all = append(all, of(a, nil))
		}
		for _, d := range a.State.Devices {
			r := of(a, d)
			taints(r, rules)
			if !unhealthy || r["health"] != "healthy" || r["taintRules"] != nil {
				all = append(all, r)
			}
		}
		for _, c := range a.State.Cordons {
			if isEmpty(answers, a.Node, text(c["device"])) {
				all = append(all, of(a, Row{"id": c["device"], "health": "absent", "reasons": []any{"cordoned"}, "holder": []any{}, "holderKnown": true, "cordon": c}))
			}
		}
	}
	return all
}

// isEmpty reports whether the slot of a cordoned card or port is empty, meaning that the cordon doesn't apply to any of
// the node's devices.
func isEmpty(answers []fleet.Answer, node, cordoned string) bool {
	return !slices.ContainsFunc(answers, func(a fleet.Answer) bool {
		return a.Node == node && slices.ContainsFunc(a.State.Devices, func(d Row) bool {
			c, _ := d["cordon"].(map[string]any) // in an IOMMU group, the cordon may be another function's
			return d["id"] == cordoned || text(d["id"])+"-p0" == cordoned || strings.HasPrefix(text(d["id"]), cordoned+"-p") || c != nil && c["device"] == cordoned
		})
	})
}

// taints sets the row's taintRules key to the names of the rules that taint its device.
func taints(r Row, rules []resourceapi.DeviceTaintRule) {
	delete(r, "taintRules")
	var names []any
	for i := range rules {
		if r["api"] == "dra" && fleet.Tainted(&rules[i], text(r["node"]), text(r["id"])) {
			names = append(names, rules[i].Name)
		}
	}
	if names != nil {
		r["taintRules"] = names
	}
}

// Flaps returns the cards whose health has changed since the given time, and the cards that were removed since then or
// at an unknown time. The cards with the most failures come first. Besides the ledger's keys, each row contains:
//
//   - failuresSince: the number of failures (changes to unhealthy) since then
//   - moreFailures: true if there may have been more failures, because the ledger keeps only the latest changes
//   - changes, more: the same for health changes of any kind
//   - last: the time of the latest change or removal
//   - reasons: the reasons for the changes since then, most frequent first
//   - health: the current health of the card's worst device
func Flaps(answers []fleet.Answer, since time.Time) []Row {
	var cards, failed []Row
	for _, a := range answers {
		if a.Err != nil {
			failed = append(failed, of(a, nil))
		}
		for _, c := range a.State.Cards {
			r := of(a, c)
			history(r, since)
			r["health"] = worst(a.State.Devices, text(c["card"]))
			if r["last"] != nil || number(c["removals"]) > 0 && text(c["lastRemoved"]) == "" {
				cards = append(cards, r)
			}
		}
	}
	slices.SortStableFunc(cards, func(a, b Row) int {
		return cmp.Or(cmp.Compare(number(b["failuresSince"]), number(a["failuresSince"])),
			cmp.Compare(number(b["changes"]), number(a["changes"])), cmp.Compare(number(b["removals"]), number(a["removals"])))
	})
	return append(cards, failed...)
}

// of returns the row for an object in an answer: the object's own keys, plus keys that say which pod the answer is
// from.
func of(a fleet.Answer, object map[string]any) Row {
	r := Row{}
	maps.Copy(r, object)
	delete(r, "error")
	r["node"], r["namespace"], r["pod"], r["version"], r["api"] = a.Node, a.Namespace, a.Pod, a.State.Version, a.State.API
	if a.Err != nil {
		r["error"] = fleet.Printable(a.Err.Error())
	}
	return r
}

// history adds a card's history since the given time to the card's row. Only some changes to a card's ports count as
// changes to the card; the node marks the ones that do. A node with an older version, which doesn't count failures,
// doesn't mark any changes; in that case, changes at the same time are counted as one.
func history(r Row, since time.Time) {
	var newest time.Time
	if at, err := time.Parse(time.RFC3339Nano, text(r["lastRemoved"])); err == nil && !at.Before(since) {
		newest = at
	}
	times, failures, reasons := map[time.Time]bool{}, map[time.Time]bool{}, map[string]int{}
	marked := r["failures"] != nil
	recent, _ := r["recent"].([]any)
	more := len(recent) > 0
	for i, v := range recent {
		change, _ := v.(map[string]any)
		at, err := time.Parse(time.RFC3339Nano, text(change["time"]))
		if err != nil || at.Before(since) {
			more = more && i > 0 // the latest change comes first, so all others are older
			continue
		}
		if at.After(newest) {
			newest = at
		}
		if !marked || change["ofCard"] == true {
			times[at] = true
			if change["to"] == "unhealthy" {
				failures[at] = true
			}
		}
		if reason := text(change["reason"]); reason != "" {
			reasons[reason]++
		}
	}
	r["changes"] = int64(len(times))
	r["more"] = more && number(r["healthChanges"]) > int64(len(times))
	r["failuresSince"] = int64(len(failures))
	r["moreFailures"] = r["more"] == true && (!marked || number(r["failures"]) > int64(len(failures)))
	r["last"] = nil
	if !newest.IsZero() {
		r["last"] = newest.Format(time.RFC3339)
	}
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = name
	}
	r["reasons"] = list
}

// worst returns the health of a card's worst device, or "absent" if the card doesn't have any devices.
func worst(devices []map[string]any, card string) string {
	order := []string{"absent", "healthy", "degraded", "unhealthy"}
	found := 0
	for _, d := range devices {
		if id := text(d["id"]); id == card || strings.HasPrefix(id, card+"-p") {
			found = max(found, slices.Index(order, text(d["health"])))
		}
	}
	return order[found]
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

// Notes returns notes to the user about the answers: which nodes sent incomplete answers, have several releases, or run
// a version older than this program's (mine).
func Notes(answers []fleet.Answer, mine string) []string {
	nodes := map[string][]string{}
	pods := map[string][]string{}
	for _, a := range answers {
		if a.Err != nil {
			continue
		}
		for _, p := range a.State.Problems {
			nodes[p] = append(nodes[p], a.Node)
		}
		if older(a.State.Version, mine) {
			note := fmt.Sprintf("version %s is older than this command, %s", a.State.Version, mine)
			nodes[note] = append(nodes[note], a.Node)
		}
		pods[a.Node] = append(pods[a.Node], a.Namespace+"/"+a.Pod)
	}
	for node, names := range pods {
		if len(names) > 1 {
			note := "several releases list the devices of a node, each its own: " + strings.Join(names, ", ")
			nodes[note] = append(nodes[note], node)
		}
	}
	var notes []string
	for _, note := range slices.Sorted(maps.Keys(nodes)) {
		notes = append(notes, names(nodes[note])+": "+note)
	}
	return notes
}

// Silent returns a single string with the names of the nodes that didn't answer, or "" if all of them answered.
func Silent(answers []fleet.Answer) string {
	var nodes []string
	for _, a := range answers {
		if a.Err != nil {
			nodes = append(nodes, cmp.Or(a.Node, a.Namespace+"/"+a.Pod))
		}
	}
	return names(nodes)
}

// names returns the first few names, and how many more there are, as a single string.
func names(all []string) string {
	const most = 5
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
