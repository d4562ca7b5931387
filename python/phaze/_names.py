"""Which numbers of phaze.h stand for names, and where the library has those names.

Read by build_cffi.py when the records are written, and when options are filled in.  A number of an
enum that is not named here has the name of its enumerator.
"""

# fields of these structs that are int in C, since they may be left open
LEFT_OPEN = {"pz_plan", "pz_training_place_options", "pz_partition_options"}
# names of those that are no fields of a plan; the others are in plan_fields.def (_plan_names.py of the build)
FIELDS = {"objective": "pz_plan_objective_names", "risk": "pz_plan_risk_names", "without": "pz_software_names"}
SETS: dict = {"without": "pz_software_names"}

# enums: a list of names that ends with NULL, or a function
TYPES = {
    "enum pz_attention": "pz_attention_names",
    "enum pz_bound": "pz_bound_name",
    "enum pz_context_form": "pz_context_names",
    "enum pz_dim": "pz_dim_name",
    "enum pz_evaluator_kind": "pz_evaluator_names",
    "enum pz_exclusive": "pz_exclusive_names",
    "enum pz_kernels": "pz_kernels_names",
    "enum pz_mode_set": "pz_modes_names",
    "enum pz_objective_kind": "pz_objective_names",
    "enum pz_op_class": "pz_op_class_name",
    "enum pz_point_kind": "pz_point_kind_names",
    "enum pz_recompute": "pz_recompute_names",
    "enum pz_solver": "pz_solver_names",
    "enum pz_stationary": "pz_stationary_name",
    "enum pz_unknown_ops": "pz_unknown_ops_names",
}
