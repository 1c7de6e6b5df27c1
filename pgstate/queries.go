package pgstate

import (
	_ "embed" // the statements live in files of their own
)

// The statements of Store.
var (
	//go:embed sql/reserve.sql
	reserveSQL string
	//go:embed sql/receive.sql
	receiveSQL string
	//go:embed sql/accept.sql
	acceptSQL string
	//go:embed sql/dismiss.sql
	dismissSQL string
	//go:embed sql/clear_throttle.sql
	clearThrottleSQL string
	//go:embed sql/states.sql
	statesSQL string
	//go:embed sql/create_registration.sql
	createRegistrationSQL string
	//go:embed sql/update_registration.sql
	updateRegistrationSQL string
	//go:embed sql/update_start_mode.sql
	updateStartModeSQL string
	//go:embed sql/disable.sql
	disableSQL string
)
