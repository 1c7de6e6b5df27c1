package suite_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

var _ = Describe("Mirroring", func() {
	It("leaves the row of an object that only names its function as it is", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).insert(ctx)
		f.set(ctx, `enabled = false, debounce = '7.5 seconds', pending_timeout = '77 seconds', heartbeat_timeout = '33 seconds',
			handshake = 'required', updated_at = '2020-01-01'`)
		before := f.row(ctx)

		f.apply(ctx, nil)
		f.becomes(isFalse(v1alpha1.ReasonDisabledInDatabase))

		Expect(f.row(ctx)).To(Equal(before))
		Expect(f.status().Applied).To(BeNil())
		Expect(f.status().Registration).To(HaveValue(Equal(v1alpha1.RegistrationStatus{
			StartMode: "http", Debounce: *duration(7500 * time.Millisecond), PendingTimeout: *duration(77 * time.Second),
			HeartbeatTimeout: *duration(33 * time.Second), Handshake: "required", TakesPart: true,
		})))
	})

	It("leaves the row alone while a worker is healthy, too", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).insert(ctx)
		f.exec(ctx, `INSERT INTO pgflow.workers (worker_id, queue_name, function_name) VALUES (gen_random_uuid(), $1, $1)`, f.name)
		before := f.row(ctx)
		f.apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerUnverified))
		Expect(f.row(ctx)).To(Equal(before))
		Expect(f.requests(ctx)).To(BeEmpty())
	})

	It("writes the fields that are set when it creates the registration, and the others default", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) {
			s.Enabled, s.Debounce, s.Handshake = new(true), duration(1500*time.Millisecond), new(v1alpha1.HandshakeRequired)
		})
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.column(ctx, "debounce")).To(Equal("00:00:01.5"))
		Expect(f.column(ctx, "handshake")).To(Equal("required"))
		Expect(f.column(ctx, "pending_timeout")).To(Equal("00:01:00"))
		Expect(f.status().Applied).To(HaveValue(Equal(v1alpha1.Mirrored{
			Enabled: new(true), Debounce: duration(1500 * time.Millisecond), Handshake: new(v1alpha1.HandshakeRequired),
		})))
		Expect(f.condition(v1alpha1.ConditionDrifted)).To(Equal(absent))
	})

	It("writes a field when the spec changes, and forgets one that is taken out", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.Debounce = duration(2 * time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))

		f.change(ctx, func(s *spec) { s.Debounce, s.PendingTimeout = duration(3*time.Second), duration(40*time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.column(ctx, "debounce")).To(Equal("00:00:03"))
		Expect(f.column(ctx, "pending_timeout")).To(Equal("00:00:40"))

		f.change(ctx, func(s *spec) { s.Debounce = nil })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.column(ctx, "debounce")).To(Equal("00:00:03"))
		Expect(f.status().Applied).To(HaveValue(Equal(v1alpha1.Mirrored{PendingTimeout: duration(40 * time.Second)})))

		// What it no longer wants may be changed by others.
		f.set(ctx, `debounce = '9 seconds'`)
		Eventually(func() time.Duration { return f.status().Registration.Debounce.Duration }).Should(Equal(9 * time.Second))
		Expect(f.condition(v1alpha1.ConditionDrifted)).To(Equal(absent))
	})

	It("shows what others change, does not fight it, and takes the next change of the spec as wanted", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.Debounce = duration(2 * time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))

		f.set(ctx, `debounce = '12 seconds'`)
		Eventually(func() state { return f.condition(v1alpha1.ConditionDrifted) }).Should(Equal(isTrue(v1alpha1.ReasonValuesDiffer)))
		Expect(f.message(v1alpha1.ConditionDrifted)).To(And(ContainSubstring("debounce"), ContainSubstring("2s"), ContainSubstring("12s")))
		Expect(f.ready()).To(Equal(isTrue(v1alpha1.ReasonWorkerReady)))
		Eventually(func() []string { return eventReasons(ctx, f.obj) }).Should(ContainElement(v1alpha1.ReasonValuesDiffer))

		// Neither an unrelated change of the spec nor a new reading writes it back.
		f.change(ctx, func(s *spec) { s.PendingTimeout = duration(50 * time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.column(ctx, "debounce")).To(Equal("00:00:12"))
		Expect(f.condition(v1alpha1.ConditionDrifted)).To(Equal(isTrue(v1alpha1.ReasonValuesDiffer)))

		f.change(ctx, func(s *spec) { s.Debounce = duration(4 * time.Second) })
		Eventually(func() string { return f.column(ctx, "debounce") }).Should(Equal("00:00:04"))
		Eventually(func() state { return f.condition(v1alpha1.ConditionDrifted) }).Should(Equal(absent))
	})

	It("leaves a function switched off that pgflow switched off, until its row says otherwise", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.Enabled = new(true) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))

		f.set(ctx, `enabled = false`)
		f.becomes(isFalse(v1alpha1.ReasonDisabledInDatabase))
		Expect(f.condition(v1alpha1.ConditionStalled)).To(Equal(isTrue(v1alpha1.ReasonDisabledInDatabase)))
		Expect(f.condition(v1alpha1.ConditionDrifted)).To(Equal(isTrue(v1alpha1.ReasonValuesDiffer)))
		Expect(f.message(v1alpha1.ConditionReady)).To(ContainSubstring("set enabled = true"))

		// The worker ends, and nobody is started for it.
		f.stop(ctx)
		Consistently(f.arrived(ctx)).WithTimeout(300 * time.Millisecond).Should(Equal(1))
		Expect(f.column(ctx, "enabled")).To(Equal("false"))

		f.age(ctx, "1 minute")
		f.set(ctx, `enabled = true`)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.condition(v1alpha1.ConditionDrifted)).To(Equal(absent))
	})

	It("shows a worker that registers its start mode again", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).insert(ctx).apply(ctx, func(s *spec) { s.StartMode = new(v1alpha1.StartModeProcess) })
		f.becomes(isTrue(v1alpha1.ReasonProcessManaged))
		Expect(f.column(ctx, "start_mode")).To(Equal("process"))

		f.exec(ctx, `INSERT INTO pgflow.workers (worker_id, queue_name, function_name) VALUES (gen_random_uuid(), $1, $1)`, f.name)
		f.exec(ctx, `SELECT pgflow.track_worker_function($1, 'http')`, f.name)
		Eventually(func() state { return f.condition(v1alpha1.ConditionDrifted) }).Should(Equal(isTrue(v1alpha1.ReasonValuesDiffer)))
		f.becomes(isTrue(v1alpha1.ReasonWorkerUnverified))
		Expect(f.column(ctx, "start_mode")).To(Equal("http"))
	})

	It("registers a function again whose row is deleted, with all that the spec says", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.Debounce = duration(2 * time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		f.exec(ctx, `DELETE FROM pgflow.worker_functions WHERE function_name = $1`, f.name)
		Eventually(func() string { return f.column(ctx, "debounce") }).Should(Equal("00:00:02"))
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})
})
