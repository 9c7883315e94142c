package keep

import (
	"fmt"
	"os"
	"strings"

	"oras.land/oras-go/v2/registry"

	"b-com.com/accelerator-device-plugin/registry/transfer"
)

// Limits on a list. Each reference costs a goroutine and a time series in each metric.
const (
	mostReferences = 100
	longestLine    = 512
	largestList    = 64 << 10
)

// ReadList reads a file with one reference per line. It ignores empty lines and lines that start with #. Errors include
// the line number.
func ReadList(path string) ([]registry.Reference, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > largestList {
		return nil, fmt.Errorf("%s: found %d bytes, want at most %d", path, info.Size(), largestList)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	refs, err := parseList(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return refs, nil
}

func parseList(text string) ([]registry.Reference, error) {
	var refs []registry.Reference
	seen := map[string]int{} // line number, by reference
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if len(line) > longestLine {
			return nil, fmt.Errorf("line %d: found %d characters, want at most %d", number, len(line), longestLine)
		}
		ref, err := transfer.ParseReference(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if first := seen[ref.String()]; first > 0 {
			return nil, fmt.Errorf("line %d: found %s, as in line %d, want each reference once", number, ref, first)
		}
		if seen[ref.String()] = number; len(seen) > mostReferences {
			return nil, fmt.Errorf("line %d: found more than %d references, want at most %[2]d", number, mostReferences)
		}
		refs = append(refs, ref)
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("found no reference, want 1 to %d", mostReferences)
	}
	return refs, nil
}
