package edgeruntime

import _ "embed" // the statements are files

var (
	//go:embed queries/receive_invocation.sql
	receiveInvocationSQL string
	//go:embed queries/accept_invocation.sql
	acceptInvocationSQL string
	//go:embed queries/dismiss_invocation.sql
	dismissInvocationSQL string
	//go:embed queries/reserve_invocation.sql
	reserveInvocationSQL string
	//go:embed queries/track_function_014.sql
	trackFunction014SQL string
	//go:embed queries/track_function.sql
	trackFunctionSQL string
	//go:embed queries/insert_worker.sql
	insertWorkerSQL string
	//go:embed queries/heartbeat.sql
	heartbeatSQL string
	//go:embed queries/heartbeat_many.sql
	heartbeatManySQL string
	//go:embed queries/mark_stopped.sql
	markStoppedSQL string
	//go:embed queries/mark_many_stopped.sql
	markManyStoppedSQL string
)
