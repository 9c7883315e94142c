package keep_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"b-com.com/accelerator-device-plugin/registry/keep"
	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestMetrics(t *testing.T) {
	story(t, func(r *rig) {
		r.start()
		r.set(func() { r.fail[nlb] = errors.New("away") })
		r.pass(13 * time.Minute)
		page := `
# HELP accelerator_bitstream_checked_timestamp_seconds Unix time of the last successful pull or check of the reference. After a start, there is no series until the first success.
# TYPE accelerator_bitstream_checked_timestamp_seconds gauge
accelerator_bitstream_checked_timestamp_seconds{reference="registry.example.com/fpga/nlb:1.0"} 9.466848e+08
# HELP accelerator_bitstream_present 1 if the store contains the bitstream that the reference pointed to when it was last checked, 0 if not.
# TYPE accelerator_bitstream_present gauge
accelerator_bitstream_present{reference="gone.example.com/b:1"} 0
accelerator_bitstream_present{reference="registry.example.com/fpga/nlb:1.0"} 1
`
		names := []string{"accelerator_bitstream_checked_timestamp_seconds", "accelerator_bitstream_present"}
		compare.NoError(t, "CollectAndCompare", testutil.CollectAndCompare(keep.Metrics{Keeper: r.keeper}, strings.NewReader(page), names...))
		_, counts := r.keeper.States()
		if counts[keep.Installed] != 1 || counts[keep.Unchanged] != 0 || counts[keep.Failed] < 5 {
			t.Errorf("found %v, want one installation and some failures", counts)
		}
		if problems, err := testutil.CollectAndLint(keep.Metrics{Keeper: r.keeper}); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	}, nlb, "gone.example.com/b:1")
}
