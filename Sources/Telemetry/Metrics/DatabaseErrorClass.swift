package import Vocabulary

extension DatabaseErrorClass: MetricLabel {}
