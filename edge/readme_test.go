package edge_test

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestTheDocumentedChangeIsTheTestedOne: what the README says to add is what the isolates of the tests run.
func TestTheDocumentedChangeIsTheTestedOne(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	example, err := os.ReadFile("examples/greet-user/index.ts")
	g.Expect(err).NotTo(HaveOccurred())
	lines := strings.Split(strings.TrimSpace(string(example)), "\n")
	readme, err := os.ReadFile("README.md")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(readme)).To(ContainSubstring("```ts\n" + strings.Join(lines[len(lines)-2:], "\n") + "\n```"))
}
