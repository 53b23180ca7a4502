function Export-Function {
    # The text of functions, for a process that does not know them.
    param([Parameter(Mandatory)] [string[]] $Name)
    ($Name | ForEach-Object { "function $_ {`n$((Get-Command $_ -CommandType Function).Definition)`n}" }) -join "`n"
}
