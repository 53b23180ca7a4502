function ConvertTo-OptionList {
    # A table of options as arguments of an installer: /NAME="value", switches without a value.
    param([Parameter(Mandatory)] [System.Collections.IDictionary] $Options)
    foreach ($name in $Options.Keys) {
        $value = $Options[$name]
        if ($value -is [bool]) {
            if ($value) { "/$name" }
        } elseif ($null -ne $value -and "$value" -ne '') {
            '/{0}="{1}"' -f $name, ("$value" -replace '"', '""')
        }
    }
}
