package inventory_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
)

// expect compares the given attributes of devices, and their full health.
func (s *scenario) expect(st scenarioStep) error {
	snapshot, _ := s.rig.Latest()
	for id := range strings.SplitSeq(st.rest[0], ",") {
		if err := expectDevice(snapshot.Device(id), st.rest[1:]); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

func expectDevice(d *inventory.Device, words []string) error {
	states := []string{"healthy", "degraded", "unhealthy", "gone"}
	for i, word := range words {
		if slices.Contains(states, word) {
			got, want := "gone", strings.Join(words[i:], " ")
			if d != nil {
				got = strings.TrimSpace(d.Health.String() + " " + strings.Join(d.Reasons, " "))
			}
			if got != want {
				return mismatch(fmt.Sprintf("found %s, want %s", got, want))
			}
			return nil
		}
		attribute, want, ok := strings.Cut(word, "=")
		switch want = inFull(want); {
		case !ok:
			return fmt.Errorf("found state %q, want one of %v", word, states)
		case d == nil:
			return mismatch("found gone, want " + word)
		}
		got, known := map[string]string{
			"afu": d.AFUID, "interface": d.InterfaceID, "pci": d.PCIID, "as": d.OfferedAs, "node": strings.Join(d.Nodes, ","), "mounts": strings.Join(d.Mounts, ","), "slot": d.Attributes["slot"],
		}[attribute]
		if !known || got != want {
			return mismatch(fmt.Sprintf("%s: found %s, want %s", attribute, got, want))
		}
	}
	return nil
}

func (s *scenario) list(st scenarioStep) error {
	snapshot, _ := s.rig.Latest()
	var got []string
	for _, d := range snapshot.Devices {
		got = append(got, d.ID)
	}
	if want := slices.Sorted(slices.Values(st.rest)); !slices.Equal(got, want) {
		return mismatch(fmt.Sprintf("found %v, want %v", got, want))
	}
	return nil
}

// logged checks that the last command has logged this event with these fields.
func (s *scenario) logged(st scenarioStep) error {
	lines := s.lines()
	for i := s.acted; i < len(lines); i++ {
		if !s.named[i] && matches(lines[i], st.rest) {
			s.named[i] = true
			return nil
		}
	}
	return mismatch("found no such line, but:\n\t" + strings.Join(lines[s.acted:], "\n\t"))
}

// unlogged checks that no command has logged this event with these fields, other than in lines that a `log` check has
// matched.
func (s *scenario) unlogged(st scenarioStep) error {
	for i, line := range s.lines() {
		if !s.named[i] && matches(line, st.rest) {
			return mismatch("found, want none: " + line)
		}
	}
	return nil
}

// lines returns the log lines as FIELD=VALUE pairs, with the event first, followed by the other fields including the
// level. Each line ends with a space, so that every field is followed by one.
func (s *scenario) lines() []string {
	var all []string
	for _, entry := range s.logs.All() {
		fields := entry.ContextMap()
		line := []string{"event=" + fmt.Sprint(fields["event"])}
		delete(fields, "event")
		fields["level"] = entry.Level
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			line = append(line, key+"="+shown(fields[key]))
		}
		all = append(all, strings.Join(line, " ")+" ")
	}
	return all
}

// shown formats a field's value as in scenarios, with times in ms and commas between list elements.
func shown(value any) string {
	switch v := value.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, fmt.Sprint(one))
		}
		return strings.Join(all, ",")
	}
	return fmt.Sprint(value)
}

// matches reports whether a line has this event and these fields.
func matches(line string, words []string) bool {
	if !strings.HasPrefix(line, "event="+words[0]+" ") {
		return false
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if !strings.Contains(line, " "+key+"="+inFull(value)+" ") {
			return false
		}
	}
	return true
}

// A scenario fails if one of its checks doesn't hold.
func TestScenarioFails(t *testing.T) {
	for last, want := range map[string]string{
		"expect 3b:00.0 degraded link-width=4": "3b:00.0: found healthy, want degraded link-width=4",
		"expect 3b:00.0 gone":                  "3b:00.0: found healthy, want gone",
		"expect 3b:00.0,5e:00.0 healthy":       "5e:00.0: found gone, want healthy",
		"expect 3b:00.0 afu=afu2":              "3b:00.0: afu: found " + afu1 + ", want " + afu2,
		"list 5e:00.0":                         "found [3b:00.0], want [5e:00.0]",
		"log device.added device=5e:00.0":      "found no such line, but:",
		"no-log device.added":                  "found, want none: event=device.added",
		"set 5e:00.0 p0/power_state 0x6":       "slot 0000:5e:00.0 is empty",
		"silently wait 5s":                     "silently: found wait, want an edit of the node",
		"bind 3b:00.0":                         "bind: found 1 words, want ADDRESS pN",
	} {
		bubble(t, func(t *testing.T) {
			s := newScenario(t)
			var err error
			for _, line := range []string{"plug 3b:00.0 ports=1", "start", last} {
				err = s.play(line)
			}
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: error %v, want %s", last, err, want)
			}
		})
	}
}
