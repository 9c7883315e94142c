package recorder_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/recorder"
)

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs/events.md has a row for each reason, in the order of the list, and no other.
func TestReasonsAreDocumented(t *testing.T) {
	var got []recorder.Reason
	for _, m := range regexp.MustCompile("(?m)^\\| `(Device[A-Za-z]+)`").FindAllStringSubmatch(documentation(t), -1) {
		got = append(got, recorder.Reason(m[1]))
	}
	if diff := cmp.Diff(recorder.Reasons(), got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// documented checks that the messages in docs/events.md are like some of these, but
// for times.
func documented(t *testing.T, events []string) {
	t.Helper()
	times := regexp.MustCompile(`[0-9]{4}-[0-9T:-]+Z|after [0-9ms]+`)
	said := times.ReplaceAllString(strings.Join(events, "\n"), "T")
	messages := regexp.MustCompile(`(Normal|Warning) +(Device[A-Za-z]+) .*?(FPGA device .*)`).FindAllStringSubmatch(documentation(t), -1)
	if len(messages) != 5 {
		t.Errorf("%d messages in docs/events.md, want 5", len(messages))
	}
	for _, m := range messages {
		want := times.ReplaceAllString(m[3], "T")
		if !slices.ContainsFunc(strings.Split(said, "\n"), func(e string) bool {
			return strings.Contains(e, " "+m[1]+" "+m[2]+" x") && strings.HasSuffix(e, " "+want)
		}) {
			t.Errorf("docs/events.md has a message that nobody writes: %s %s %s", m[1], m[2], want)
		}
	}
}
