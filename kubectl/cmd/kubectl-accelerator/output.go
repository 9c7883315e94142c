package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/kubectl/rows"
)

// output holds the flags that determine how rows are printed.
type output struct {
	format    string
	templates *genericclioptions.KubeTemplatePrintFlags
	print     func(io.Writer, []rows.Row) error // set by parse
}

const customColumns = "custom-columns="

func addOutput(cmd *cobra.Command) *output {
	o := &output{templates: genericclioptions.NewKubeTemplatePrintFlags()}
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "output `format`: wide, json, yaml, jsonpath=…, custom-columns=HEADER:path,… or go-template=… (default: a table)")
	completeOutput(cmd, "wide", "json", "yaml", "jsonpath=", customColumns, "go-template=")
	return o
}

// completeOutput registers the formats as shell completions for the --output flag.
func completeOutput(cmd *cobra.Command, formats ...string) {
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // can't happen, because the flag exists
	}
}

// parse sets o.print to the printer for the --output flag's format, and returns an error if the format is unknown.
func (o *output) parse(short, wide []rows.Column) error {
	columns := short
	switch {
	case o.format == "wide":
		columns = wide
	case strings.HasPrefix(o.format, customColumns):
		var err error
		if columns, err = parseColumns(strings.TrimPrefix(o.format, customColumns)); err != nil {
			return err
		}
	case o.format == "json":
		o.print = func(w io.Writer, all []rows.Row) error { return terminal.WriteJSON(w, list(all)) }
		return nil
	case o.format == "yaml":
		o.print = func(w io.Writer, all []rows.Row) error {
			text, err := yaml.Marshal(list(all))
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		}
		return nil
	case o.format != "":
		printer, err := o.templates.ToPrinter(o.format)
		if genericclioptions.IsNoCompatiblePrinterError(err) {
			return fmt.Errorf("--output: found %q, want one of wide, json, yaml, custom-columns=, %s=", o.format, strings.Join(o.templates.AllowedFormats(), "=, "))
		}
		if err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		o.print = func(w io.Writer, all []rows.Row) error {
			return printer.PrintObj(&unstructured.Unstructured{Object: list(all)}, w)
		}
		return nil
	}
	o.print = func(w io.Writer, all []rows.Row) error {
		return rows.Print(w, all, columns, terminal.Is(w) && os.Getenv("NO_COLOR") == "")
	}
	return nil
}

// list wraps rows in a List, as kubectl does for several objects.
func list(all []rows.Row) map[string]any {
	items := make([]any, len(all))
	for i, r := range all {
		items[i] = r
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}

// parseColumns parses HEADER:path,HEADER:path the way kubectl does.
func parseColumns(text string) (columns []rows.Column, err error) {
	for part := range strings.SplitSeq(text, ",") {
		title, path, ok := strings.Cut(part, ":")
		if !ok || title == "" || path == "" {
			return nil, fmt.Errorf("--output: custom-columns: found %q, want HEADER:path, such as NODE:.node", part)
		}
		path = "{." + strings.TrimPrefix(strings.Trim(path, "{}"), ".") + "}"
		parsed := jsonpath.New(title).AllowMissingKeys(true)
		if err := parsed.Parse(path); err != nil {
			return nil, fmt.Errorf("--output: custom-columns: %s: %w", title, err)
		}
		columns = append(columns, rows.Column{Title: title, Cell: func(r rows.Row) string {
			found, err := parsed.FindResults(r)
			if err != nil {
				return "<none>"
			}
			var texts []string
			for value := range slices.Values(slices.Concat(found...)) {
				texts = append(texts, rows.Text(value.Interface()))
			}
			return cmp.Or(strings.Join(texts, ","), "<none>")
		}})
	}
	return columns, nil
}
